"""Each data set is recognised by the real names of its files."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import date
from pathlib import Path

import pytest

from agecli.core.errors import InputError, MissingError
from agecli.datasets.sources import recognise
from agecli.datasets.sources.finding import find_files
from agecli.datasets.sources.labels import Label, parse_date, years_between
from tests.datasets import trees

NAMES = {
    "morph": ("009055_1M54.JPG", Label("54", "009055", "M")),
    "fgnet": ("images/078A04b.JPG", Label("4", "078")),
    "cacd": ("14_Aaron_Johnson_0001.jpg", Label("14", "Aaron_Johnson")),
    "utkface": ("26_0_1_20170116174525125.jpg.chip.jpg", Label("26", "", "M", "Black")),
    "afad": ("AFAD-Full/25/112/123-0.jpg", Label("25", "", "F")),
    "aaf": ("00000A02.jpg", Label("2", "00000", "F")),
    "agedb": ("0_MariaCallas_35_f.jpg", Label("35", "MariaCallas", "F")),
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


def test_all_age_faces_has_women_first_and_each_photo_once(tmp_path: Path) -> None:
    files = ["aligned faces/07381A30.jpg", "original images/07380A30.jpg", "original images/07381A30.jpg"]
    source = recognise(tmp_path, files)
    assert source.labels == {
        "original images/07380A30.jpg": Label("30", "07380", "F"),
        "original images/07381A30.jpg": Label("30", "07381", "M"),
    }
    assert source.whole  # the aligned copy is no photo of its own
    files = ["26_0_1_20170116174525125.jpg", "26_0_1_20170116174525125.jpg.chip.jpg"]
    assert list(recognise(tmp_path, files).labels) == files[:1]


def test_a_table_of_something_else_does_not_rename_a_known_set(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("name,score,std\n001A02.JPG,0.9,0.1\n001A05.JPG,0.91,0.1\n")
    assert recognise(tmp_path, ["001A02.JPG", "001A05.JPG"]).name == "fgnet"


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


def test_morphs_table_adds_race_and_dates_and_the_name_keeps_its_age(tmp_path: Path) -> None:
    rows = trees.morph_rows({("B", "M"): 5, ("W", "F"): 3})
    files = trees.morph(tmp_path, rows)
    source = recognise(tmp_path, files)
    assert source.name == "morph"
    assert len(source.labels) == 8
    first = source.labels["Album2/000001_0M62.JPG"]
    assert first == Label("62", "000001", "M", "Black", birth="1941-02-15", taken="2003-12-20")
    assert source.labels["Album2/000003_2F62.JPG"].race == "White"


def test_morph_photos_under_other_names_are_found_by_their_numbers_and_dates(tmp_path: Path) -> None:
    (tmp_path / "morph.csv").write_text(
        "id,picture,dob,doa,race,gender,photo\n9055,1,1949-07-01,2003-12-20,W,Male,face-9055-1.png\n"
    )
    assert recognise(tmp_path, ["face-9055-1.png"]).labels == {
        "face-9055-1.png": Label("54", "9055", "M", "White", birth="1949-07-01", taken="2003-12-20")
    }


def test_morphs_table_under_other_headings_and_with_gaps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "m.csv").write_text(
        "Subject ID;Picture;DateOfBirth;Date of Acquisition;Race;Gender\n9055;1;07/01/49;12/20/03;B;\n"
    )
    assert recognise(tmp_path, ["009055_1M54.JPG"]).labels == {
        "009055_1M54.JPG": Label("54", "009055", "M", "Black", birth="1949-07-01", taken="2003-12-20")
    }
    (tmp_path / "m.csv").write_text("id_num,dob,doa,gender\n9055,1949-07-01,2003-12-20,M\n")
    logging.getLogger("agecli").propagate = True
    assert recognise(tmp_path, ["009055_1M54.JPG"]).labels["009055_1M54.JPG"].race == ""
    assert "no column for race" in caplog.text


def test_morph_names_may_end_in_a_race(tmp_path: Path) -> None:
    files = ["009055_1M54W.jpg", "009055_2M55B.jpg", "009057_1F20.jpg"]
    assert recognise(tmp_path, files).labels == {
        files[0]: Label("54", "009055", "M", "White"),
        files[1]: Label("55", "009055", "M", "Black"),
        files[2]: Label("20", "009057", "F", ""),
    }


@pytest.mark.parametrize("place", ["morph.csv", "tables/morph.csv", "Album2/docs/morph.csv"])
@pytest.mark.parametrize("columns", ["id_num,picture_num,race,gender", "photo,race,gender"])
def test_morphs_table_may_lack_dates_and_be_in_a_subfolder(tmp_path: Path, place: str, columns: str) -> None:
    file = "Album2/009055_1M54.JPG"
    row = "009055_1M54.JPG,W,M" if columns.startswith("photo") else "9055,1,W,M"
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(f"{columns}\n{row}\n")
    assert recognise(tmp_path, [file]).labels == {file: Label("54", "009055", "M", "White")}


def test_a_table_without_dates_is_morphs_only_beside_photos_with_its_names(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,race,gender,photo\n1,W,M,a.jpg\n")
    assert recognise(tmp_path, ["a.jpg"]).labels == {}


def test_the_splits_of_fae_b_are_read_from_its_json(tmp_path: Path) -> None:
    entries = [
        {"img_path": "MORPH/Album2/009055_1M54.JPG", "id_num": 9055, "age": 54, "gender": "M", "folder": 3},
        {"img_path": "MORPH/Album2/000001_1F20.JPG", "id_num": 1, "age": 20, "folder": 9},
        {"img_path": "MORPH/Album2/not_here.JPG", "id_num": 2, "age": 20, "folder": 0},
    ]
    (tmp_path / "MORPH.json").write_text(json.dumps(entries))
    (tmp_path / "A.json").write_text("{")
    files = ["Album2/009055_1M54.jpg", "000001_1F20.JPG", "other.jpg"]
    source = recognise(tmp_path, files)
    assert (source.name, source.whole) == ("fae-b", True)
    assert source.labels == {
        files[0]: Label("54", "9055", "M", split="3"),
        files[1]: Label("20", "1", "", split="9"),
    }


@pytest.mark.parametrize("hdf5", [False, True], ids=["mat5", "mat7.3"])
def test_cacd_metadata_in_both_formats_of_matlab(tmp_path: Path, hdf5: bool) -> None:
    files = trees.cacd(tmp_path, hdf5)
    spoilt = "CACD2000/54_Robin_Williams_0002.jpg"  # not in the table under this name
    source = recognise(tmp_path, [*files, spoilt])
    assert source.name == "cacd"
    assert source.labels[files[0]] == Label("53", "Robin_Williams", rank="1", birth="1951", taken="2004")
    assert source.labels[files[2]].rank == "6"
    assert source.labels[spoilt] == Label("54", "Robin_Williams", rank="1")


def test_imdb_wiki_takes_photos_with_one_good_face(tmp_path: Path) -> None:
    files = trees.imdb_wiki(tmp_path)
    source = recognise(tmp_path, files)
    assert source.name == "imdb-wiki"
    assert source.labels == {
        files[0]: Label("28", "Sami Jauhojärvi", "M", birth="1981-05-05", taken="2009"),
        files[1]: Label("38", "Dettmar Cramer", "M", birth="1925-12-31", taken="1964"),
        files[4]: Label("41", "Diana Damrau", "", birth="1971-05-31", taken="2012"),
    }


def test_appa_real_has_real_ages_parts_and_groups(tmp_path: Path) -> None:
    source = recognise(tmp_path, trees.appa_real(tmp_path))
    assert source.name == "appa-real"
    assert len(source.labels) == 6  # the cut faces beside the photos are none of them
    assert source.labels["train/000000.jpg"] == Label("4", "", "M", "White", "train")
    assert source.labels["valid/000001.jpg"] == Label("21", split="val")


@pytest.mark.parametrize("text", ["image,mean,stdv\nimage_1.jpg,29.5,3.8\n", "image_1.jpg;29.5;3.8\n"])
def test_chalearn_ages_are_what_people_guessed(tmp_path: Path, text: str) -> None:
    (tmp_path / "train_gt.csv").write_text(text)
    source = recognise(tmp_path, ["train/image_1.jpg"])
    assert source.name == "chalearn"
    assert source.labels == {"train/image_1.jpg": Label("29.5", split="train")}


def test_a_mat_file_needs_a_package_that_the_base_install_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "celebrity2000_meta.mat").write_bytes(b"MATLAB 7.3 MAT-file" + b"\0" * 200)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingError, match="h5py") as caught:
        recognise(tmp_path, ["14_Aaron_Johnson_0001.jpg"])
    assert caught.value.hint == "pip install 'agecli[train]'"


def test_a_damaged_mat_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "celebrity2000_meta.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\0" * 200)
    with pytest.raises(InputError, match="celebrity2000_meta"):
        recognise(tmp_path, ["14_Aaron_Johnson_0001.jpg"])


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("1949-07-01", date(1949, 7, 1)),
        ("7/1/1949", date(1949, 7, 1)),
        ("07/01/49", date(1949, 7, 1)),
        ("31/12/1949", date(1949, 12, 31)),
        ("1949", date(1949, 7, 1)),
        ("1949-07-01 00:00:00", date(1949, 7, 1)),
        ("1949-07-01T12:00:00", date(1949, 7, 1)),
        ("19490701", date(1949, 7, 1)),
        ("1-Jul-1949", date(1949, 7, 1)),
        ("1-Foo-1949", None),
        ("1949-13-01", None),
        ("", None),
    ],
)
def test_dates_as_tables_have_them(text: str, means: date | None) -> None:
    assert parse_date(text) == means


def test_ages_as_people_count_them() -> None:
    assert years_between(date(1980, 6, 15), date(2000, 6, 14)) == 19
    assert years_between(date(1980, 6, 15), date(2000, 6, 15)) == 20


def test_a_labels_csv_longer_than_a_chunk_is_read_whole_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agecli.datasets.sources.tables.CHUNK", 3)
    names = [f"{number % 10}-{number}.jpg" for number in range(17)]
    rows = [*((name, "30") for name in names), (names[0], "31")]  # the last row of a photo counts
    (tmp_path / "labels.csv").write_text("path,age,gender\n" + "".join(f"{name},{age},male\n" for name, age in rows))
    found = recognise(tmp_path, [])
    assert list(found.labels) == sorted(names)
    assert found.labels[names[0]] == Label("31", sex="M")
    assert found.labels[names[16]] == Label("30", sex="M")
    assert "other.jpg" not in found.labels


def test_tables_are_found_upper_ones_first_and_pipes_are_not(tmp_path: Path) -> None:
    for name in ("b.csv", "z/a.csv", "a/c/d.csv", "a/c/e/too-deep.csv", "a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "z")
    found = [
        [str(path.relative_to(tmp_path)) for path in find_files(tmp_path, lambda name: name.endswith(".csv"), 2, links)]
        for links in (False, True)
    ]
    assert found[0] == ["b.csv", "z/a.csv", "a/c/d.csv"]
    assert found[1] == ["b.csv", "linked/a.csv", "z/a.csv", "a/c/d.csv"]
    assert find_files(tmp_path / "nothing", lambda name: True) == []
