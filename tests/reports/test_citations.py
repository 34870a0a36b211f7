"""What to cite: entries that BibTeX can read, for every data set that is recognised, and those of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agecli.core.config import Config, replace, to_toml
from agecli.core.version import __version__
from agecli.datasets.sources import METADATA
from agecli.datasets.sources.names import PARSERS
from agecli.reports.citations import ENTRIES, backbone, cite, data_sets, entry
from tests.conftest import invoke


@pytest.mark.parametrize("key", ENTRIES)
def test_each_entry_is_well_formed(key: str) -> None:
    text = entry(key)
    assert re.match(rf"@(misc|article|inproceedings)\{{{key},\n", text)
    assert text.count("{") == text.count("}")
    for field in ("title", "author", "year"):
        assert re.search(rf"^  {field} = \{{.+\}},$", text, re.M)
    assert text.isascii()


def test_each_data_set_that_is_recognised_can_be_cited() -> None:
    assert {*PARSERS, *METADATA, "fae-b"} <= ENTRIES.keys()


def test_the_default_is_the_tool_the_paper_and_the_bundled_model() -> None:
    done = invoke("info", "--cite")
    assert done.exit_code == 0
    assert re.findall(r"^@\w+\{(.*),$", done.stdout, re.M) == [
        *("agecli", "shen2021", "utkface", "aaf", "appa-real", "imdb-wiki", "edgeface")
    ]
    assert f"version = {{{__version__}}}" in done.stdout


def run_folder(folder: Path, changes: dict[str, object], paths: list[str]) -> Path:
    """The files of a run that was started."""
    (folder / "config.toml").write_text(to_toml(replace(Config(), changes)), encoding="utf-8")
    about = {"data": "faces", "manifest_sha256": "0", "backbone_sha256": "0", "folds": 1}
    (folder / "environment.json").write_text(json.dumps(about), encoding="utf-8")
    rows = [f"1,train,{path},0" for path in paths]
    (folder / "splits.csv").write_text("\n".join(["fold,part,path,manifest", *rows]) + "\n", encoding="utf-8")
    return folder


def test_a_run_cites_its_data_set_and_its_backbone(tmp_path: Path) -> None:
    run = run_folder(tmp_path, {"backbone.name": "vgg16"}, ["faces/001A02.JPG.jpg", "faces/001A05.JPG.jpg"])
    keys = re.findall(r"^@\w+\{(.*),$", "\n".join(cite(run)), re.M)
    assert keys == ["agecli", "shen2021", "fgnet", "vgg"]


def test_unknown_photos_are_said_to_be_unknown(tmp_path: Path) -> None:
    run = run_folder(tmp_path, {}, ["faces/IMG_1.jpg"])
    text = "\n".join(cite(run))
    assert "% the data set of this run is not recognised" in text
    assert "@misc{timm," in text


def test_a_model_that_starts_from_the_default_one_cites_its_data() -> None:
    assert "utkface" in list(backbone(replace(Config(), {"init": "default"})))


def test_names_of_several_sets_are_told_apart() -> None:
    utkface = [f"images/{age}_0_1_20170116174525125.jpg.chip.jpg.jpg" for age in range(10, 40)]
    assert data_sets([*utkface, "images/00000A02.jpg.jpg"]) == ["utkface", "aaf"]


def test_a_run_without_cite_is_an_error_and_so_is_a_folder_without_a_run(tmp_path: Path) -> None:
    assert "--cite" in invoke("info", tmp_path).stderr
    assert invoke("info", tmp_path, "--cite").exit_code == 3
