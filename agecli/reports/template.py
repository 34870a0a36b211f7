"""The frame of the HTML report: its style, and the page around its sections."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5c6670; --paper: #f5f6f8; --card: #fff; --line: #dce0e5;
  --warn: #7a3e00; --alarm: #fff1d6; --edge: #e69f00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a3adb8; --paper: #15181c; --card: #1f2429;
  --line: #363d45; --warn: #ffd591; --alarm: #3a2a0c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem clamp(.75rem, 3vw, 2.5rem) 3rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { max-width: 46rem; margin: .5rem 0; }
small, .soft, figcaption { color: var(--soft); font-size: .85rem; }
figcaption b { color: var(--ink); }
.lead { font-size: 1.15rem; }
.note { color: var(--soft); margin: .25rem 0; }
.warning { background: var(--alarm); color: var(--warn); border-left: 4px solid var(--edge); padding: .6rem .9rem;
  border-radius: 4px; }
.tiles, .figures, .beside, .faces { display: grid; gap: .75rem; margin: 1rem 0; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(max(9rem, 20%), 1fr)); }
.figures { grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.beside { grid-template-columns: minmax(0, 26rem); align-items: start; }
@media (min-width: 70rem) { .beside { grid-template-columns: 22rem minmax(0, 1fr); }
  .beside h3:first-child { margin-top: 0; } }
.faces { grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); }
.tiles div, figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.tiles div { padding: .6rem .8rem; }
.tiles dt { font-size: .85rem; line-height: 1.35; }
.tiles dd { margin: 0; }
.tiles b { font-size: 1.5rem; line-height: 1.3; }
.tiles small, td small, .faces small { display: block; }
figure { overflow: hidden; }
figure img { display: block; width: 100%; background: #fff; }
.figures img, .beside img { padding: .5rem .3rem .2rem; }
.figures figcaption, .beside figcaption { padding: .6rem .8rem .8rem; }
.faces img, .missing { aspect-ratio: 1; object-fit: contain; background: #e9ebee; }
.missing { display: grid; place-items: center; padding: .5rem; text-align: center; color: #5c6670; font-size: .8rem; }
.faces figcaption { padding: .4rem .6rem .6rem; line-height: 1.35; }
.faces .path { font-size: .75rem; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: .35rem .6rem; text-align: right; vertical-align: top; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-size: .8rem; vertical-align: bottom; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); min-width: 5.8rem; }
td { white-space: nowrap; }
.few td { color: var(--soft); }
.mark { color: #c26a00; }
summary { cursor: pointer; padding: .5rem 0; font-weight: 600; }
.about { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .25rem 1rem; margin: 0; }
.about dt { color: var(--soft); }
.about dd { margin: 0; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .75rem; }
@media print { body { max-width: none; } figure, tr, .tiles div { break-inside: avoid; } }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{sections}
</main>
<footer class=soft>Ages read from faces are guesses with a spread of years. Don't decide about a person by them.</footer>
</body>
</html>
"""
