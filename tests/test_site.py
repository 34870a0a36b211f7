"""The documentation site builds without a warning, and needs no other server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytest.importorskip("zensical", reason="needs pip install '.[docs]'; .ci/run builds the site in any case")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, made from a copy of the pages."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_each_page_becomes_a_page(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


def test_nothing_is_loaded_from_other_servers(site: Path) -> None:
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=[\"']?([^\"'\s>]+)", html)
        loaded += re.findall(r"<link[^>]* rel=[\"']?(?:stylesheet|preconnect)[^>]* href=[\"']?([^\"'\s>]+)", html)
        assert loaded
        assert not [address for address in loaded if re.match("(https?:)?//", address)], page.name


def test_equations_are_marked_for_the_script_that_draws_them(site: Path) -> None:
    html = (site / "algorithm.html").read_text(encoding="utf-8")
    assert html.count('class="arithmatex"') > 10
    assert "assets/katex/katex.min.js" in html
    assert "$$" not in html
