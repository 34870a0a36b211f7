"""Each data set is recognised by the real names of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agecli.data.sources import Label, recognise
from agecli.errors import InputError

NAMES = {
    "morph": ("009055_1M54.JPG", Label("54", "009055", "M")),
    "fgnet": ("images/078A04b.JPG", Label("4", "078")),
    "cacd": ("14_Aaron_Johnson_0001.jpg", Label("14", "Aaron_Johnson")),
    "utkface": ("26_0_1_20170116174525125.jpg.chip.jpg", Label("26", "", "M", "Black")),
    "afad": ("AFAD-Full/25/112/123-0.jpg", Label("25", "", "F")),
    "aaf": ("00000A02.jpg", Label("2")),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_recognised_by_its_names(tmp_path: Path, name: str) -> None:
    file, label = NAMES[name]
    source = recognise(tmp_path, [file, "readme.jpg"])
    assert source.name == name
    assert source.labels == {file: label}


def test_utkface_names_without_a_race(tmp_path: Path) -> None:
    assert recognise(tmp_path, ["61_1_20170109150557335.jpg"]).labels == {
        "61_1_20170109150557335.jpg": Label("61", "", "F", "")
    }


def test_names_with_gaps_and_digits(tmp_path: Path) -> None:
    assert recognise(tmp_path, ["53__0_20170116184028385.jpg"]).labels == {
        "53__0_20170116184028385.jpg": Label("53", "", "", "White")
    }
    assert recognise(tmp_path, ["30_50_Cent_0001.jpg"], "cacd").labels == {
        "30_50_Cent_0001.jpg": Label("30", "50_Cent")
    }


def test_other_names_are_just_a_folder(tmp_path: Path) -> None:
    assert recognise(tmp_path, ["IMG_2041.jpg", "me.png"]).name == "folder"
    assert recognise(tmp_path, ["IMG_2041.jpg", "001A02.JPG"], "folder").labels == {}


def test_a_table_comes_first_and_a_name_overrides(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("path,age,identity,gender\n001A02.JPG,3,x,F\n")
    assert recognise(tmp_path, ["001A02.JPG"]).labels == {"001A02.JPG": Label("3", "x", "F")}
    assert recognise(tmp_path, ["001A02.JPG"], "fgnet").labels == {"001A02.JPG": Label("2", "001")}


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown data set `mnist`"):
        recognise(tmp_path, [], "mnist")
    with pytest.raises(InputError, match=r"labels\.csv"):
        recognise(tmp_path, ["a.jpg"], "csv")
    (tmp_path / "labels.csv").write_text("file,age\na.jpg,3\n")
    with pytest.raises(InputError, match="no columns path and age"):
        recognise(tmp_path, ["a.jpg"])
