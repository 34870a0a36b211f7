"""Reading faces with ages from a folder, and saying what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agecli.core.ages import AgeGrid
from agecli.core.errors import AgecliError, InputError, MissingError
from agecli.core.records import Sample
from agecli.datasets.manifest import Manifest, read_labels, read_manifest, read_names

GRID = AgeGrid(0, 120)


def folder(tmp_path: Path, text: str, name: str = "labels.csv") -> Path:
    (tmp_path / name).write_bytes(text.encode())
    return tmp_path


def test_labels_from_elsewhere_and_other_names_of_columns(tmp_path: Path) -> None:
    text = "\ufeffPath, Age ,identity,gender,race,note\nb.jpg,31.5,007,M,Asian,x\na.jpg,4,,,,\nc.jpg,,,,,\n"
    manifest = read_manifest(folder(tmp_path, text), GRID)
    assert manifest.samples == (Sample("a.jpg", 4.0), Sample("b.jpg", 31.5, "007", "M", "Asian"))


def test_one_picture_has_one_path_and_one_word_for_its_people(tmp_path: Path) -> None:
    text = "path;age;gender;race\n./a.jpg;4;male;caucasian\nx//b.jpg;5;Female;Others\n"
    samples = read_manifest(folder(tmp_path, text), GRID).samples
    assert samples == (Sample("a.jpg", 4.0, "", "M", "White"), Sample("x/b.jpg", 5.0, "", "F", "Other"))
    with pytest.raises(AgecliError, match="twice"):
        read_manifest(folder(tmp_path, "path,age\na.jpg,3\n./a.jpg,3\n"), GRID)


def test_the_hash_does_not_change_with_what_is_not_known() -> None:
    one = Manifest(Path(), (Sample("a.jpg", 4.0, "x"),))
    assert one.digest == Manifest(Path("elsewhere"), (Sample("a.jpg", 4.0, "x", sex=""),)).digest
    assert one.digest != Manifest(Path(), (Sample("a.jpg", 4.0, "x", sex="F"),)).digest


def test_weights_are_read_and_change_the_hash(tmp_path: Path) -> None:
    plain = read_manifest(folder(tmp_path, "path,age,weight\na.jpg,3,1\nb.jpg,4,\n"), GRID)
    assert plain.digest == read_manifest(folder(tmp_path, "path,age\na.jpg,3\nb.jpg,4\n"), GRID).digest
    heavy = read_manifest(folder(tmp_path, "path,age,weight\na.jpg,3,2.5\nb.jpg,4,\n"), GRID)
    assert [sample.weight for sample in heavy.samples] == [2.5, 1.0]
    assert heavy.digest != plain.digest


def test_our_manifest_comes_before_labels(tmp_path: Path) -> None:
    folder(tmp_path, "path,age\na.jpg,1\n")
    assert read_manifest(folder(tmp_path, "path,age\nb.jpg,2\n", "manifest.csv"), GRID).samples[0].path == "b.jpg"


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    one = read_manifest(folder(tmp_path / "x", "path,age\na.jpg,1\nb.jpg,2\n"), GRID)
    two = read_manifest(folder(tmp_path / "y", "path,age\nb.jpg,2\na.jpg,1\n"), GRID)
    assert one.samples == two.samples
    assert one.digest == two.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("path,age\n", "lists no faces"),
        ("", "lists no faces"),
        ("path,years\na.jpg,3\n", "no column age"),
        ("path,age\na.jpg,\nb.jpg,\n", "no face in"),
        ("path,age\na.jpg,old\n", "line 2: age 'old' is not a number"),
        ("path,age\na.jpg,3\nb.jpg,nan\n", "line 3: age 'nan'"),
        ("path,age\na.jpg,121\n", "age 121 is outside the age grid, 0 to 120"),
        ("path,age\na.jpg,-1\n", "age -1 is outside"),
        ("path,age\na.jpg,3\na.jpg,4\n", "a.jpg twice"),
        ("path,age,weight\na.jpg,3,heavy\n", "line 2: weight 'heavy'"),
        ("path,age,weight\na.jpg,3,0\n", "line 2: weight '0'"),
        ("path,age,weight\na.jpg,3,1e9\n", "line 2: weight '1e9'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AgecliError) as caught:
        read_manifest(folder(tmp_path, text), GRID)
    assert says in caught.value.message
    assert caught.value.hint


def test_a_missing_folder_and_a_folder_without_a_table(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(MissingError) as caught:
            read_manifest(place, GRID)
        assert str(place) in caught.value.message


def test_the_lists_of_the_authors_have_an_age_behind_each_name(tmp_path: Path) -> None:
    (tmp_path / "morph_setting1.list").write_text(
        "009055_1M54.JPG 54\n020490_1M67.JPG 67\n\na b 12.jpg\nno suffix 12\n"
    )
    names = read_names(tmp_path / "morph_setting1.list")
    assert names == ["009055_1M54.JPG", "020490_1M67.JPG", "a b 12.jpg", "no suffix 12"]
    (tmp_path / "labels.csv").write_text("path,age\nAlbum2/009055_1M54.JPG,54\nAlbum2/1.jpg,20\n")
    assert [sample.age for sample in read_manifest(tmp_path, AgeGrid(), only=names).samples] == [54]


@pytest.mark.parametrize(
    ("content", "says"), [(None, "is missing"), (bytes(range(250)), "is damaged"), (b"", "is damaged")]
)
def test_packed_faces_without_their_index_are_one_error(tmp_path: Path, content: bytes | None, says: str) -> None:
    (tmp_path / "manifest.csv").write_text("path,age\nfaces/a.jpg,3\n")
    (tmp_path / "faces-00000.tar").write_bytes(bytes(1024))
    if content is not None:
        (tmp_path / "faces.index.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"faces\.index\.npy {says}") as error:
        read_labels(tmp_path)
    assert f"agecli merge {tmp_path}" in error.value.hint
