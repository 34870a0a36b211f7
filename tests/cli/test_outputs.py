"""No command replaces an input, a picture, or a file that agecli did not write."""

from __future__ import annotations

import dataclasses
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

import agecli
from agecli.cli import app
from agecli.core.errors import InputError
from agecli.core.files import WRITTEN
from agecli.core.outputs import PAGE, TABLES, check_output, kind_of
from agecli.core.records import RECORD_COLUMNS
from agecli.datasets import auditing, contact_sheet, label_checks, splitting
from agecli.datasets.toy import draw_faces
from agecli.evaluation.leaf_statistics import LeafStatistics
from agecli.images.alignment import Alignment
from agecli.model.bundled import bundled
from agecli.model.checkpoint import KIND, write_tensors
from agecli.reports.figures.style import drawn, single_axes
from agecli.scoring.groups import GROUP_COLUMNS
from agecli.scoring.metrics import METRIC_COLUMNS, PREDICTION_COLUMNS
from agecli.studies import tables as study_tables
from agecli.training.run_folder import REPORT_COLUMNS
from tests.conftest import invoke


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw_faces(tmp_path / "photos", 2)
    return tmp_path / "photos"


def test_a_forgotten_name_costs_no_photo(photos: Path) -> None:
    first, second = sorted((photos / "images").iterdir())
    content = first.read_bytes()
    done = invoke("predict", "--no-detect", "-o", first, second)  # predict -o *.jpg
    assert done.exit_code == 2
    assert f"{first} exists, and was not written by a command like this one" in done.output
    assert "--force" in done.output
    assert first.read_bytes() == content
    with pytest.raises(InputError, match="was not written by"):
        agecli.predict(str(second), no_detect=True).save(first, file_format="csv")
    assert first.read_bytes() == content


def test_predictions_replace_predictions_and_with_force_anything(photos: Path, tmp_path: Path) -> None:
    photo, notes = next((photos / "images").iterdir()), tmp_path / "notes.csv"
    notes.write_text("path,age\nmine,3\n")
    for name in ("a.csv", "a.jsonl", "empty.csv"):
        (tmp_path / "empty.csv").touch()
        assert [invoke("predict", photo, "--no-detect", "-o", tmp_path / name).exit_code for _ in "12"] == [0, 0]
    done = invoke("predict", photo, "--no-detect", "-o", notes)
    assert (done.exit_code, notes.read_text()) == (2, "path,age\nmine,3\n")
    assert invoke("predict", photo, "--no-detect", "-o", notes, "--force").exit_code == 0
    assert notes.read_text().startswith("schema,source,status")


def test_an_input_is_not_replaced_even_with_force(photos: Path, tmp_path: Path) -> None:
    names = tmp_path / "list.csv"
    names.write_text("fold,part,path\n1,train,a.jpg\n")  # a file of agecli, but an input
    for command in (
        ("predict", f"@{names}", "-o", names),
        ("split", photos, "--list", names, "--out", names),
        ("evaluate", "--data", photos, "--exclude", names, "-o", names),
        ("audit", photos, "--out", photos / "labels.csv"),
        ("plot", "distribution", names, "-o", names),
    ):
        done = invoke(*command, *(["--force"] if command[0] != "audit" else []))
        assert done.exit_code == 2, command
        assert "is an input of this command" in done.output or "was not written by" in done.output
    assert names.read_text().startswith("fold,part,path")


@pytest.mark.parametrize("way", ["folder", "glob", "list", "stdin", "python", "merge", "neither"])
def test_not_even_force_replaces_a_photo_however_it_is_named(photos: Path, tmp_path: Path, way: str) -> None:
    photo, other = sorted((photos / "images").iterdir())
    content = photo.read_bytes()
    names = tmp_path / "names"
    names.write_text(f"{photo}\n{other}\n")
    given = {"folder": photos, "glob": f"{photo.parent}/[0]*.jpg", "list": f"@{names}", "stdin": "-"}.get(way, other)
    output = ("-f", "csv", "-o", photo, "--force")
    if way == "python":
        with pytest.raises(InputError, match="is a picture"):
            agecli.predict(str(photo.parent), no_detect=True).save(photo, file_format="csv", force=True)
    elif way == "merge":
        assert invoke("predict", photos, "--no-detect", "--out", tmp_path / "run", "--shards", 1).exit_code == 0
        done = invoke("merge", tmp_path / "run", *output)
        assert (done.exit_code, f"{photo} is a picture" in done.output) == (2, True)
    else:
        done = CliRunner().invoke(app, ["predict", str(given), "--no-detect", *map(str, output)], input=f"{photo}\n")
        assert (done.exit_code, f"{photo} is a picture" in done.output) == (2, True)
    assert photo.read_bytes() == content


def test_not_even_force_replaces_what_can_be_an_input(photos: Path, tmp_path: Path) -> None:
    photo = next((photos / "images").iterdir())
    for kind in ("PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF"):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{kind}.x", kind)
    for form in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT):
        for mode in ("w", "w:gz", "w:bz2", "w:xz"):
            with tarfile.open(tmp_path / f"{mode[2:]}{form}.x", mode, format=form) as tar:
                tar.add(photo, "a.jpg")
    with zipfile.ZipFile(tmp_path / "zip.x", "w") as archive:
        archive.write(photo)
    (tmp_path / "program.x").write_bytes(b"#!/bin/sh\n" + (tmp_path / "zip.x").read_bytes())
    (tmp_path / "video.x").write_bytes(b"\0\0\0\x20ftypisom" + bytes(99))
    (tmp_path / "rows.x").write_bytes(b"PAR1 pictures PAR1")
    write_tensors(tmp_path / "model.x", KIND, {"a": torch.zeros(2)}, {})
    (tmp_path / "manifest.csv").write_text("path,age\na.jpg,3\n")
    files = [*tmp_path.glob("*.x"), tmp_path / "manifest.csv", photos / "labels.csv"]
    before = {path: path.read_bytes() for path in files}
    for path in files:
        with pytest.raises(InputError, match="not replaced, even with --force"):
            check_output(path, ["table"], force=True)
    done = invoke("audit", photos, "--out", photos / "labels.csv", "--force")
    assert (done.exit_code, {path: path.read_bytes() for path in files}) == (2, before)
    for text in (b"P1 is the first person", b"be, free", b"BM and more text\n", b"\x1b[0m", b"GIF\n", b"x" * 600):
        (tmp_path / "notes").write_bytes(text)
        check_output(tmp_path / "notes", ["table"], force=True)


@pytest.mark.parametrize(
    "command",
    [
        ("split", "photos", "--out", "mine.csv"),
        ("split", "photos", "-o", "mine.csv"),
        ("audit", "photos", "--out", "mine.csv"),
        ("audit", "photos", "-o", "mine.csv"),
        ("preprocess", "photos", "--no-detect", "--out", "faces", "--contact-sheet", "mine.png"),
        ("preprocess", "photos", "--no-detect", "--out", "faces", "-o", "mine.csv"),
        ("export", "default", "--out", "mine.onnx"),
        ("export", "default", "--out", "mine.safetensors"),
        ("evaluate", "--data", "photos", "--report", "mine.html"),
        ("evaluate", "--data", "photos", "--out", "folder"),
        ("evaluate", "--data", "photos", "-o", "mine.csv"),
        ("train", "--data", "photos", "-o", "mine.csv"),
        ("study", "alpha", "--data", "photos", "-o", "mine.csv"),
        ("inspect", "default", "-o", "mine.csv"),
        ("plot", "leaves", "default", "-o", "mine.png"),
        ("plot", "history", "run", "-o", "mine.svg"),
        ("plot", "cs", "run", "-o", "mine.pdf"),
    ],
)
def test_every_command_leaves_a_users_file_alone(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = [Path("mine").with_suffix(s) for s in (".csv", ".onnx", ".safetensors", ".html", ".svg", ".pdf")]
    for path in [*mine, Path("folder/metrics.csv")]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    Image.new("RGB", (9, 9)).save("mine.png")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = invoke(*command)
    assert done.exit_code == 2
    assert "was not written by a command like this one" in done.output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["a.xlsx", "a.doc"])
def test_an_unknown_ending_is_an_error_that_lists_the_known_ones(photos: Path, tmp_path: Path, name: str) -> None:
    photo = next((photos / "images").iterdir())
    for command in (("predict", photo), ("audit", photos), ("evaluate", "--data", photos), ("train", "--data", photos)):
        done = invoke(*command, "-o", tmp_path / name)
        assert done.exit_code == 2
        assert all(word in done.output for word in (name, ".csv", ".jsonl"))
    assert not (tmp_path / name).exists()
    assert (
        "use .jpg" in invoke("preprocess", photos, "--out", tmp_path / "x", "--contact-sheet", tmp_path / name).output
    )


def test_preprocess_does_not_write_among_files_that_it_did_not_write(photos: Path, tmp_path: Path) -> None:
    mine = tmp_path / "out/faces/images/0000_0_64.jpg.jpg"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    done = invoke("preprocess", photos, "--no-detect", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "was not written by `preprocess`" in done.output
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [mine]


def test_tables_of_all_commands_are_recognised(tmp_path: Path) -> None:
    leaf = tuple(field.name for field in dataclasses.fields(LeafStatistics))
    columns = (
        *(RECORD_COLUMNS, splitting.SPLIT_COLUMNS, splitting.PLAIN_COLUMNS, label_checks.FINDING_COLUMNS),
        *(auditing.COLUMNS, ("what", "count"), REPORT_COLUMNS, ("model", *METRIC_COLUMNS), leaf),
        *(study_tables.COLUMNS, study_tables.ENTROPY_COLUMNS, PREDICTION_COLUMNS, ("fold", *PREDICTION_COLUMNS)),
        GROUP_COLUMNS,
    )
    for names in columns:
        row = dict.fromkeys(names, 1)
        for text in (",".join(names), "\t".join(names) + "\n", json.dumps(row) + "\n{}", json.dumps([row], indent=1)):
            (tmp_path / "x").write_text(text)
            assert kind_of(tmp_path / "x") == "table"
    assert len({names[:3] for names in columns}) <= len(TABLES)


def test_pictures_pages_and_models_are_recognised(tmp_path: Path) -> None:
    @drawn
    def empty() -> Figure:
        return single_axes()[0]

    for kind in ("svg", "png", "pdf"):
        (tmp_path / kind).write_bytes(empty.render(kind))
        assert kind_of(tmp_path / kind) == "picture"
    for name in ("a.png", "a.jpg", "a.webp"):
        contact_sheet.draw_contact_sheet([], 0, Alignment(), tmp_path / name)
        assert kind_of(tmp_path / name) == "picture"
    (tmp_path / "page").write_bytes(b"<!doctype html>" + PAGE)
    assert kind_of(tmp_path / "page") == "page"
    for dtype, kind in ((torch.float16, "model"), (torch.float32, "foreign")):  # exported, trained
        write_tensors(tmp_path / "m.safetensors", KIND, {"a": torch.zeros(2, dtype=dtype)}, {})
        assert kind_of(tmp_path / "m.safetensors") == kind
    assert kind_of(bundled(".onnx")) == "model"


def test_files_of_users_are_foreign(tmp_path: Path, photos: Path) -> None:
    for content in (
        b"x",
        b"\0" * 20,
        b"{",
        b"{" * 9999,
        b"[" * 9999,
        b"PAR1",
        b"path,age,subject\n",
        b"\xff\xfe\n",
        b"\n",
    ):
        (tmp_path / "x").write_bytes(content)
        assert kind_of(tmp_path / "x") == "foreign"
    assert kind_of(photos / "labels.csv") == "foreign"
    assert kind_of(next((photos / "images").iterdir())) == "foreign"


@pytest.mark.parametrize("edit", ["append", "replace", "copy"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_table_that_the_user_changed_is_not_replaced(photos: Path, tmp_path: Path, name: str, edit: str) -> None:
    command = ("predict", photos / "images", "--no-detect", "-o", tmp_path / name)
    assert [invoke(*command).exit_code for _ in "12"] == [0, 0]  # its own, unchanged
    path = tmp_path / name
    if not hasattr(os, "getxattr") or WRITTEN not in os.listxattr(path):
        pytest.skip("the file system has no extended attributes")
    content = path.read_bytes()
    if edit == "append":
        with path.open("ab") as file:
            file.write(b"\n")
    else:
        path.unlink()
        path.write_bytes(content)  # as an editor or a spreadsheet saves it
    edited = path.read_bytes()
    done = invoke(*command)
    assert (done.exit_code, path.read_bytes()) == (2, edited)
    assert f"{path} was changed since agecli wrote it" in done.output
    assert invoke(*command, "--force").exit_code == 0
    assert path.read_bytes() == content


def test_a_photo_is_no_model_with_and_without_torch(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo = next((photos / "images").iterdir())
    monkeypatch.setattr("agecli.model.predictors.require", lambda *names, **about: pytest.fail("it asks for torch"))
    done = invoke("predict", photo, "--model", photo)
    assert done.exit_code == 2
    assert f"{photo} is no model" in done.output


def test_out_of_shards_is_a_folder_and_no_file(photos: Path, tmp_path: Path) -> None:
    done = invoke("predict", photos, "--out", tmp_path / "ages.csv")
    assert done.exit_code == 2
    assert f"-o {tmp_path / 'ages.csv'}" in done.stderr
    assert not (tmp_path / "ages.csv").exists()
    agecli.predict(photos).save(tmp_path / "ages.csv")
    written = (tmp_path / "ages.csv").read_bytes()
    done = invoke("predict", photos, "--out", tmp_path / "ages.csv")
    assert done.exit_code == 2
    assert "is a file" in done.stderr
    assert (tmp_path / "ages.csv").read_bytes() == written


def test_a_report_is_a_page(tmp_path: Path) -> None:
    done = invoke("evaluate", tmp_path, "--report", tmp_path / "report.pdf")
    assert done.exit_code == 2
    assert "report.html" in done.stderr
    assert not (tmp_path / "report.pdf").exists()


def test_photos_are_not_aligned_into_their_own_folder(photos: Path) -> None:
    done = invoke("preprocess", photos, "--out", photos)
    assert done.exit_code == 2
    assert "is the folder of the photos" in done.stderr


def test_a_photo_is_no_model_to_evaluate(photos: Path) -> None:
    photo = next(path for path in photos.rglob("*") if path.suffix in (".jpg", ".png"))
    done = invoke("evaluate", photo)
    assert done.exit_code == 2
    assert "neither a run folder nor a model" in done.stderr


def test_empty_files_and_names_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    first, second = agecli.predict([str(tmp_path / "empty.jpg"), ""])
    assert (first.error, second.error) == ("it is an empty file", "its name is empty")
