// Equations ($...$ and $$...$$ in the pages) as HTML, by KaTeX, from this folder: no request leaves the site.
document.querySelectorAll(".arithmatex").forEach((element) => {
  const text = element.textContent.trim();
  const display = text.startsWith("\\[");
  katex.render(text.slice(2, -2), element, { displayMode: display, throwOnError: false });
});
