"""The report is one page that shows its pictures, requests nothing, fits a phone and states its limits."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agecli.core.seeding import generator
from agecli.datasets.toy import draw_face
from agecli.reports.page import WORST, ModelReport, write_page
from agecli.scoring.comparison import compare
from agecli.scoring.groups import breakdown
from agecli.scoring.metrics import Predictions, pick
from tests.reports.figures.test_accuracy import predictions_of

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless=new",
    "--no-sandbox",  # which root can't have
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",  # of Chromium itself, as are these
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # and what it still asks for goes nowhere
)
ODD = 'odd <b>&".jpg'  # a picture that is there
LOST = "lost \udce9.jpg"  # one that is not; its name was no UTF-8
WIDTHS = (1280, 390)
PROBE = """<!doctype html><body>{frames}<pre id=found></pre><script>
onload = () => {{
  document.getElementById("found").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => ({{
    scroll: frame.contentDocument.documentElement.scrollWidth,
    tables: [...frame.contentDocument.querySelectorAll(".scroll")].map(box => ({{
      name: box.ariaLabel, cut: box.scrollWidth > box.clientWidth + 1,
      hint: !!box.previousElementSibling?.matches(".hint") && box.previousElementSibling.offsetHeight > 0
    }})),
    requests: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name),
    pictures: [...frame.contentDocument.images].map(image => {{
      const canvas = Object.assign(document.createElement("canvas"), {{width: 200, height: 150}});
      const paper = canvas.getContext("2d");
      if (image.naturalWidth) paper.drawImage(image, 0, 0, 200, 150);
      const colours = new Set(new Uint32Array(paper.getImageData(0, 0, 200, 150).data.buffer));
      return {{alt: image.alt, width: image.naturalWidth, shown: image.clientWidth, colours: colours.size}};
    }})
  }})));
}};
</script>"""


@dataclass(frozen=True)
class Visit:
    """What a browser made of a page."""

    document: str
    console: list[str]
    requests: list[str]


def visit(page: Path, folder: Path) -> Visit:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert browser, "this test looks at the page in a browser: install one, on Debian `apt-get install chromium`"
    log = folder / "net.json"
    options = [f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr"]
    command = [browser, *QUIET, *options, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    console = [text for text in done.stderr.decode("utf-8", "replace").splitlines() if ":CONSOLE" in text]
    recorded = json.loads(log.read_text(encoding="utf-8"))
    start = recorded["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    started = [
        event["params"] for event in recorded["events"] if event["type"] == start and "url" in event.get("params", ())
    ]
    own = "not an origin"  # who asks, where it is Chromium itself and not a page
    return Visit(done.stdout.decode(), console, [job["url"] for job in started if job.get("initiator") != own])


def report_of(
    name: str, predictions: Predictions, folder: Path, leakage: float | None = 0.0, **options: Any
) -> ModelReport:
    return ModelReport(
        name, predictions, breakdown(predictions, **options), leakage, folder, {"command": "agecli evaluate <run>"}
    )


def text_of(path: Path) -> str:
    """The page without its pictures."""
    return re.sub(r"base64,[^\"]*", "", path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[ModelReport]:
    """Three models; the worst faces of the first have pictures, except one."""
    folder = tmp_path_factory.mktemp("pictures")
    first = predictions_of(calibrated=True)
    samples = list(first.samples)
    for place, index in enumerate(np.argsort(-np.abs(first.error), kind="stable")[:WORST].tolist()):
        name = {1: ODD, 2: LOST}.get(place, f"face {place}.jpg")
        samples[index] = dataclasses.replace(samples[index], path=name)
        if name != LOST:
            draw_face(30, generator(0, "person", place), generator(0, "photo", place)).save(folder / name)
    first = dataclasses.replace(first, samples=tuple(samples))
    others = [dataclasses.replace(predictions_of(spread=spread), samples=first.samples) for spread in (9, 4)]
    named = dict(zip(("runs/drf <1>", "runs/dldlf", "runs/" + "long" * 12), (first, *others), strict=True))
    return [report_of(name, some, folder, 0.25, challenge=(18.0, 25.0)) for name, some in named.items()]


@pytest.fixture(scope="module")
def page(models: list[ModelReport], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, models, compare({model.name: model.predictions for model in models}))
    return path


@pytest.fixture(scope="module")
def found(page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """What is to be seen of the page, unchanged and under its own policy, in a frame of each width."""
    folder = tmp_path_factory.mktemp("probe")
    inside = html.escape(page.read_text(encoding="utf-8"))
    frames = "".join(f'<iframe style="width:{w}px;height:900px;border:0" srcdoc="{inside}"></iframe>' for w in WIDTHS)
    (folder / "probe.html").write_text(PROBE.format(frames=frames), encoding="utf-8")
    answer = re.search(r'<pre id="found">(.*?)</pre>', visit(folder / "probe.html", folder).document, re.DOTALL)
    assert answer is not None
    return dict(zip(WIDTHS, json.loads(html.unescape(answer[1])), strict=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_every_picture_is_drawn(found: dict[int, Any], width: int) -> None:
    pictures = found[width]["pictures"]
    assert len(pictures) == 9 + 3 + WORST - 1  # figures, one of them for each model; and the faces without the lost one
    for picture in pictures:
        assert picture["width"] > 0, picture
        assert picture["shown"] > 100, picture
        assert picture["colours"] > 10, picture


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_does_not_scroll_sideways(found: dict[int, Any], width: int) -> None:
    assert found[width]["scroll"] <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_that_is_cut_says_that_it_scrolls(found: dict[int, Any], width: int) -> None:
    tables = found[width]["tables"]
    assert [table["name"] for table in tables if table["cut"] and width > 1000] == []
    assert all(table["hint"] for table in tables if table["cut"]), [table for table in tables if table["cut"]]


def test_the_page_says_what_was_measured_on_whom_how_sure_and_what_for(page: Path) -> None:
    text = text_of(page)
    for words in ("What was measured", "On whom", "How sure", "Not to be used for", "no proof of age", "False accepts"):
        assert words in text
    assert "compliant" not in text.lower()


def test_on_a_phone_figures_have_the_whole_width(found: dict[int, Any]) -> None:
    assert all(picture["shown"] > 300 for picture in found[390]["pictures"][:12])


def test_nothing_leaves_the_page_and_the_console_is_silent(page: Path, found: dict[int, Any], tmp_path: Path) -> None:
    seen = visit(page, tmp_path)
    assert "<h1>How well drf &lt;1&gt;, dldlf and" in seen.document
    assert seen.console == []
    assert seen.requests == []
    assert [found[width]["requests"] for width in WIDTHS] == [[], []]


def test_a_page_that_asks_or_complains_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text('<img src="http://example.com/x.png"><script>console.error("oh")</script>', encoding="utf-8")
    seen = visit(path, tmp_path)
    assert seen.requests == ["http://example.com/x.png"]
    assert len(seen.console) == 1


def test_names_are_escaped(page: Path) -> None:
    text = text_of(page)
    assert "odd &lt;b&gt;&amp;&#34;.jpg" in text
    assert r"lost \udce9.jpg" in text
    assert "agecli evaluate &lt;run&gt;" in text
    assert "<b>&" not in text
    assert "there is no such file" in text
    assert "<script" not in text


def test_names_are_escaped_exactly_once_wherever_they_occur(tmp_path: Path) -> None:
    """In file names, subjects, groups, and the names of runs: in text and in attributes."""
    odd = '<b>&amp;"x"'
    plain = predictions_of(60)
    samples = [
        dataclasses.replace(s, path=f"{odd}{s.path}", subject=f"{odd}{s.subject}", race=odd) for s in plain.samples
    ]
    predictions = dataclasses.replace(plain, samples=tuple(samples))
    models = [report_of(name, predictions, tmp_path, 0.5, challenge=(18.0,)) for name in (odd, f"runs/{odd}")]
    write_page(tmp_path / "report.html", models, compare({model.name: model.predictions for model in models}))
    text = text_of(tmp_path / "report.html")
    once = "&lt;b&gt;&amp;amp;&#34;x&#34;"
    assert odd not in text
    assert "&amp;amp;amp;" not in text
    assert "&amp;lt;" not in text
    for place in (
        f"<title>How well {once} and runs/{once} estimate ages on ",
        f'alt="Predicted against true age of {once}"',
        f'aria-label="Requested age checks of runs/{once}"',
        f"<summary>Groups of runs/{once}</summary>",
        f"<th scope=row>{once}",
        f"<small class=path>{once}",
    ):
        assert place in text, place


def test_the_same_results_are_the_same_page(models: list[ModelReport], page: Path, tmp_path: Path) -> None:
    write_page(tmp_path / "again.html", models, compare({model.name: model.predictions for model in models}))
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


@pytest.mark.parametrize(
    ("predictions", "leakage", "sentences"),
    [
        (
            predictions_of(1, known=False),
            None,
            (
                "On 1 face,",
                "Whether the subjects were seen in training is not known",
                "<b>not calibrated</b>",
                "Sex and race of these faces are not known",
            ),
        ),
        (predictions_of(60, calibrated=True), 0.0, ("None of the subjects was seen in training", "are conformal")),
        (predictions_of(60), 0.831, ("⚠ 83.1\u00a0% of the test faces show people who were also seen in",)),
    ],
    ids=("one face of nobody known", "new people", "known people"),
)
def test_leakage_calibration_and_small_groups_are_stated(
    predictions: Predictions, leakage: float | None, sentences: tuple[str, ...], tmp_path: Path
) -> None:
    model = report_of("drf", predictions, tmp_path, leakage)
    write_page(tmp_path / "report.html", [model])
    text = text_of(tmp_path / "report.html")
    for sentence in sentences:
        assert sentence in text
    assert text.count("<tr class=few>") == sum(row["small"] for row in model.rows)
    assert "Requested age checks" not in text  # there are none


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (None, "can't be checked"),
        (0.0, "None of the photos was seen in training, selection or calibration"),
        (0.004, "0.4\u00a0% of the photos look like"),
        (0.37, "37.0\u00a0% of the test photos were seen"),
    ],
)
def test_the_share_of_seen_photos_is_stated_beside_the_error(seen: float | None, words: str, tmp_path: Path) -> None:
    report = report_of("drf", predictions_of(), tmp_path)
    apart = [{**report.rows[0], "model": f"drf, {kind}", "seen": share} for kind, share in (("seen", 1), ("unseen", 0))]
    report = dataclasses.replace(report, seen=seen, apart=apart if seen == 0.37 else [])
    write_page(tmp_path / "page.html", [report])
    text = html.unescape(text_of(tmp_path / "page.html"))
    assert words in text
    assert ("of the photos seen in training" in text) == (seen is not None)
    assert ("drf, unseen" in text) == (seen == 0.37)
    assert ("class=warning" in text) == (seen == 0.37)


def test_a_shift_of_the_photos_is_a_warning(tmp_path: Path) -> None:
    report = dataclasses.replace(
        report_of("drf", predictions_of(calibrated=True), tmp_path), shift="these 100 photos …"
    )
    write_page(tmp_path / "page.html", [report])
    assert "look unlike those that the" in text_of(tmp_path / "page.html")


def test_small_groups_are_marked(models: list[ModelReport], page: Path) -> None:
    small = [row for model in models for row in model.rows if row["small"]]
    checked = [row for row in small if row["by"] in ("decade", "sex", "race")]  # these are in the age checks too
    assert small
    assert text_of(page).count("<tr class=few>") == len(small) + len(checked)


def test_age_checks_are_shown_if_requested(page: Path) -> None:
    assert "younger than 18, predicted 25 or older" in text_of(page)
    assert "25 or older, predicted younger than 25" in text_of(page)


def test_eleven_thousand_faces_fit_into_three_megabytes(tmp_path: Path) -> None:
    many = predictions_of(11_000)
    rows = breakdown(pick(many, range(1000)))  # as many rows as all would have, sooner
    write_page(tmp_path / "report.html", [ModelReport("drf", many, rows, 0.0, tmp_path, {})])
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
