"""Places: runs and files at addresses, here in `memory://`, with the records of local ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from PIL import Image

from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.scaling.places import RemotePath, place, write_whole
from tests.conftest import invoke

EXAMPLE = Path(__file__).parents[2] / "docs/example.jpg"
COUNT = 5


@pytest.fixture(autouse=True)
def memory() -> Iterator[MemoryFileSystem]:
    """The store `memory://`, empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, of which one can't be read, and what `predict -o` says of them."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "photos").mkdir()
    with Image.open(EXAMPLE) as image:
        for number in range(COUNT - 1):
            image.crop((150 + number, 40, 300, 190)).save(folder / f"photos/{number}.jpg")
    (folder / "photos/z.jpg").write_text("no picture")
    assert invoke("predict", folder / "photos", "--no-detect", "-o", folder / "one.jsonl").exit_code == 1
    return folder


def predict(photos: Path, *more: object) -> tuple[int, str]:
    done = invoke("predict", photos / "photos", "--no-detect", "--workers", "1", *more)
    return done.exit_code, done.stderr


def files(memory: MemoryFileSystem) -> set[str]:
    return set(memory.find("/"))


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_run_at_an_address_has_the_records_of_a_local_one(
    photos: Path, tmp_path: Path, memory: MemoryFileSystem, form: str
) -> None:
    out = ("--out", "memory://bucket/ages/", "--shards", "3", "--format", form)
    assert predict(photos, *out, "--shard", "1/3")[0] == 0
    assert files(memory) == {
        f"/bucket/ages/{name}" for name in ("plan.json", "plan.inputs.jsonl", f"part-00001.{form}")
    }
    done = invoke("merge", "memory://bucket/ages", "-o", tmp_path / "early.jsonl")
    assert (done.exit_code, "--array=0,2" in done.stderr) == (2, True)
    state = invoke("status", "memory://bucket/ages", "--format", "csv")
    assert "done,1" in state.stdout
    assert "missing,2" in state.stdout
    first = memory.cat_file(f"/bucket/ages/part-00001.{form}")
    assert predict(photos, *out)[0] == 1
    assert memory.cat_file(f"/bucket/ages/part-00001.{form}") == first  # done once
    assert invoke("merge", "memory://bucket/ages/", "-o", "memory://bucket/all.jsonl").exit_code == 0
    assert memory.cat_file("/bucket/all.jsonl") == (photos / "one.jsonl").read_bytes()
    for name in ("all.csv", "all.parquet"):
        assert invoke("merge", "memory://bucket/ages/", "-o", tmp_path / name).exit_code == 0
        assert invoke("predict", photos / "photos", "--no-detect", "-o", tmp_path / f"one-{name}").exit_code == 1
        assert (tmp_path / name).read_bytes() == (tmp_path / f"one-{name}").read_bytes()
    assert len(read_csv(tmp_path / "all.csv")) == COUNT
    memory.pipe_file(f"/bucket/ages/part-00002.{form}", memory.cat_file(f"/bucket/ages/part-00002.{form}")[:-3])
    done = invoke("merge", "memory://bucket/ages", "-o", tmp_path / "late.jsonl")
    assert (done.exit_code, "--array=2" in done.stderr) == (2, True)


def test_other_options_at_an_address_are_refused(photos: Path) -> None:
    out = ("--out", "memory://bucket/ages", "--shards", "2")
    assert predict(photos, *out, "--shard", "0/2")[0] == 0
    for more in (("--format", "parquet"), ("--largest",)):
        code, errors = predict(photos, *out, *more)
        assert code == 2
        assert "is the plan of another run" in errors


def test_a_file_at_an_address_is_whole_or_not_there(photos: Path, memory: MemoryFileSystem) -> None:
    assert predict(photos, "-o", "memory://bucket/ages.jsonl")[0] == 1
    assert memory.cat_file("/bucket/ages.jsonl") == (photos / "one.jsonl").read_bytes()
    assert files(memory) == {"/bucket/ages.jsonl"}
    code, errors = predict(photos, "-o", "memory://bucket/ages.jsonl")
    assert (code, "exists" in errors, "--force" in errors) == (2, True, True)
    assert predict(photos, "-o", "memory://bucket/ages.jsonl", "--force")[0] == 1
    memory.pipe_file("/bucket/photo.jpg", b"\xff\xd8\xff photo")
    code, errors = predict(photos, "-f", "csv", "-o", "memory://bucket/photo.jpg", "--force")
    assert (code, "is a picture" in errors) == (2, True)
    assert memory.cat_file("/bucket/photo.jpg") == b"\xff\xd8\xff photo"
    memory.rm_file("/bucket/photo.jpg")
    code, errors = predict(photos, "-o", "memory://bucket/other.jsonl", "--resume")
    assert (code, "--out" in errors) == (2, True)
    with suppress(RuntimeError), write_whole(place("memory://bucket/half")) as part:
        part.write_text("half")
        raise RuntimeError
    assert files(memory) == {"/bucket/ages.jsonl"}


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])  # the latter for a bucket that is not there
def test_a_store_that_refuses_is_found_before_any_work_and_late_refusals_lose_nothing(
    photos: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def refuse(self: object, *_: object, **__: object) -> None:
        raise error("Access Denied")

    monkeypatch.setattr(MemoryFileSystem, "put_file", refuse)
    code, errors = predict(photos, "-o", "memory://bucket/ages.jsonl")
    assert (code, "Access Denied" in errors, "gave no age" in errors) == (2, True, False)
    code, errors = predict(photos, "--out", "memory://bucket/ages/")
    assert (code, "Access Denied" in errors) == (2, True)
    with pytest.raises(InputError) as raised, write_whole(place("memory://bucket/late.txt"), keep=True) as part:
        part.write_text("hours of work")
    assert "Access Denied" in raised.value.message
    kept = Path(raised.value.hint.removeprefix("the file is ").partition(": copy")[0])
    assert kept.is_relative_to(tempfile.gettempdir())
    assert kept.read_text() == "hours of work"
    kept.unlink()
    kept.parent.rmdir()


def test_stores_that_show_half_files_get_another_name_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sftp:// does; the local file system stands for it."""
    local = fsspec.filesystem("file")
    monkeypatch.setattr("agecli.scaling.places.filesystem", lambda address: (local, address.partition("://")[2]))
    seen: list[str] = []
    put = type(local).put_file

    def noted(self: object, source: str, target: str) -> None:
        seen.append(target)
        put(self, source, target)

    monkeypatch.setattr(type(local), "put_file", noted)
    target = RemotePath(f"sftp://{tmp_path}/deep/file.txt")
    with write_whole(target) as part:
        part.write_text("whole")
    assert (tmp_path / "deep/file.txt").read_text() == "whole"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file.txt"]
    assert seen
    assert all(name.endswith(".part") for name in seen)


def test_a_path_that_is_written_as_an_address_is_a_path(tmp_path: Path, photos: Path) -> None:
    assert place(f"file://{tmp_path}/x") == tmp_path / "x"
    assert predict(photos, "-o", f"file://{tmp_path}/ages.jsonl")[0] == 1
    assert (tmp_path / "ages.jsonl").read_bytes() == (photos / "one.jsonl").read_bytes()


def test_a_missing_package_is_named_with_the_line_to_install(tmp_path: Path, photos: Path) -> None:
    """Before anything is predicted, also where s3fs is installed."""
    (tmp_path / "s3fs.py").write_text("raise ImportError('hidden', name='s3fs')")
    for more in (["--out", "s3://bucket/ages/"], ["-o", "s3://bucket/ages.jsonl"]):
        done = subprocess.run(
            [sys.executable, "-m", "agecli", "predict", str(photos / "photos"), *more],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(EXAMPLE.parents[1])])},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 3, done.stderr
        assert "pip install s3fs" in done.stderr
        assert done.stdout == ""


def test_the_records_of_a_part_in_parquet_are_those_of_json_lines(photos: Path, tmp_path: Path) -> None:
    """With distributions, a face check, names that are not UTF-8, and an input without a face."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for path in (photos / "photos").iterdir():
        os.link(path, os.path.join(os.fsencode(folder), b"\xff" + os.fsencode(path.name)))
    (folder / "none.png").write_bytes(b"")
    options = ("--distribution", "--over", "18", "--abstain-above", "20", "--workers", "1")
    assert invoke("predict", folder, *options, "-o", tmp_path / "one.jsonl").exit_code == 1
    out = tmp_path / "ages"
    assert invoke("predict", folder, *options, "--out", out, "--shards", "3", "--format", "parquet").exit_code == 1
    assert invoke("merge", out, "-o", tmp_path / "ages.jsonl").exit_code == 0
    assert (tmp_path / "ages.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    sources = [json.loads(line)["source"] for line in (tmp_path / "ages.jsonl").read_text().splitlines()]
    assert sum("\udcff" in source for source in sources) == COUNT


def test_a_folder_at_an_address_is_no_file(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/kinds/inner/a.txt", b"a")
    there = place("memory://kinds")
    assert (there / "inner").exists()
    assert not (there / "inner").is_file()
    assert (there / "inner" / "a.txt").is_file()
    assert not (there / "none").is_file()
