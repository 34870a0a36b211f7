"""Inputs where they lie: archives, Parquet files and addresses give the records of the same photos in a folder."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import agecli
from agecli.images import archives, members
from agecli.images.containers import list_members, load, open_member
from agecli.images.opening import UnreadableError
from tests.conftest import Cli, invoke

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
NAMES = [*(f"{number}.jpg" for number in range(5)), "bad.jpg", "inner/x.png"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`photos` as a folder, in archives and in Parquet files."""
    folder = tmp_path_factory.mktemp("containers")
    photos = folder / "photos"
    (photos / "inner").mkdir(parents=True)
    with Image.open(EXAMPLE) as image:
        for number in range(5):
            image.crop((150 + number, 40, 300, 190)).save(photos / f"{number}.jpg")
        image.crop((160, 40, 300, 190)).save(photos / "inner/x.png")
    (photos / "bad.jpg").write_text("no picture")
    (photos / "notes.txt").write_text("no photo")
    for mode, ending in (("w", "tar"), ("w:gz", "tar.gz"), ("w:xz", "tar.xz")):
        with tarfile.open(folder / f"photos.{ending}", mode) as tar:  # type: ignore[call-overload]
            for name in sorted([*NAMES, "notes.txt"]):
                tar.add(photos / name, name)
    with zipfile.ZipFile(folder / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted([*NAMES, "notes.txt"]):
            archive.write(photos / name, name)
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = [(photos / name).read_bytes() for name in sorted(NAMES)]
    structs = [{"bytes": content, "path": name} for content, name in zip(data, sorted(NAMES), strict=True)]
    pq.write_table(pa.table({"age": [1] * 7, "image": structs}), folder / "structs.parquet", row_group_size=2)
    pq.write_table(pa.table({"jpg": data}), folder / "bytes.parquet", row_group_size=3)
    paths = [f"photos/{name}" for name in sorted(NAMES)]
    pq.write_table(pa.table({"path": paths, "note": ["x"] * 7}), folder / "paths.parquet")
    return folder


def rows(images: Any, prefix: str = "") -> list[dict[str, Any]]:
    """The records of some inputs, with a prefix removed from their names."""
    found = [record.row() for record in agecli.predict(images, no_detect=True)]
    return [{**row, "source": row["source"].removeprefix(prefix)} for row in found]


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[dict[str, Any]]:
    found = rows(str(folder / "photos"), f"{folder}/photos/")
    assert [row["source"] for row in found] == sorted(NAMES)
    assert [row["status"] for row in found].count("ok") == 6
    return found


@pytest.mark.parametrize("name", ["photos.tar", "photos.tar.gz", "photos.tar.xz", "photos.zip", "structs.parquet"])
def test_a_container_gives_the_records_of_its_folder(folder: Path, expected: list[dict[str, Any]], name: str) -> None:
    assert rows(str(folder / name), f"{folder / name}/") == expected


def test_pictures_without_names_have_the_number_of_their_row(folder: Path, expected: list[dict[str, Any]]) -> None:
    found = rows(str(folder / "bytes.parquet"), f"{folder}/bytes.parquet/")
    assert found == [{**row, "source": str(number)} for number, row in enumerate(expected)]


def test_a_column_of_paths_is_a_list(folder: Path, expected: list[dict[str, Any]]) -> None:
    assert rows(str(folder / "paths.parquet"), f"{folder}/photos/") == expected


def test_workers_and_shards_read_containers_too(folder: Path, cli: Cli, tmp_path: Path) -> None:
    inputs = [
        folder / name for name in ("photos.tar", "photos.tar.gz", "photos.zip", "structs.parquet", "paths.parquet")
    ]
    common = ("--no-detect", "--workers", 2)
    assert cli("predict", *inputs, *common, "-o", "one.jsonl").returncode == 1
    assert cli("predict", *inputs, *common, "--out", "out", "--shards", 9).returncode == 1
    agecli.merge(tmp_path / "out", tmp_path / "merged.jsonl")
    one = (tmp_path / "one.jsonl").read_bytes()
    assert (tmp_path / "merged.jsonl").read_bytes() == one
    assert one.count(b"\n") == 5 * len(NAMES)


def test_an_interrupted_run_on_an_archive_is_resumed(folder: Path, cli: Cli, tmp_path: Path) -> None:
    command = ("predict", folder / "photos.tar.gz", "--no-detect")
    cli(*command, "-o", "one.jsonl")
    journal = [json.dumps(header(tmp_path)), *(tmp_path / "one.jsonl").read_text().splitlines()[:3]]
    (tmp_path / "two.jsonl.unfinished").write_text("\n".join(journal) + "\n")
    done = cli(*command, "-o", "two.jsonl", "--resume")
    assert "resuming after 2 inputs" in done.stderr
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def header(folder: Path) -> dict[str, Any]:
    """The first line of a journal of these options."""
    from dataclasses import asdict

    from agecli.core.files import file_hash
    from agecli.model.bundled import named
    from agecli.prediction.options import Options

    return {"model": file_hash(named(None, ".onnx")), **asdict(Options(no_detect=True))}


def hostile_tar(path: Path, mode: str) -> None:
    """Names that leave the folder, links, a device, and a member too large for a picture."""
    picture = io.BytesIO()
    with Image.open(EXAMPLE) as image:
        image.crop((150, 40, 300, 190)).save(picture, "JPEG")
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name in ("../up.jpg", "/tmp/absolute.jpg", "a/../../up2.jpg"):
            info = tarfile.TarInfo(name)
            info.size = len(picture.getvalue())
            tar.addfile(info, io.BytesIO(picture.getvalue()))
        for name, kind, target in (
            ("symbolic.jpg", tarfile.SYMTYPE, "/etc/passwd"),
            ("hard.jpg", tarfile.LNKTYPE, "../up.jpg"),
            ("device.jpg", tarfile.CHRTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
        info = tarfile.TarInfo("bomb.jpg")
        info.size = members.MOST_BYTES + 1
        tar.addfile(info, Zeros())


class Zeros:
    """A file without an end."""

    def read(self, size: int) -> bytes:
        return bytes(size)


def hostile_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("../up.jpg", "/tmp/absolute.jpg"):
            with Image.open(EXAMPLE) as image, archive.open(name, "w") as file:
                picture = io.BytesIO()
                image.crop((150, 40, 300, 190)).save(picture, "JPEG")
                file.write(picture.getvalue())
        link = zipfile.ZipInfo("symbolic.jpg")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        with archive.open("bomb.jpg", "w", force_zip64=True) as file:
            for _ in range(members.MOST_BYTES // (1 << 20) + 1):
                file.write(bytes(1 << 20))


def everything(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_a_hostile_archive_writes_nothing_and_gets_records(
    cli: Cli, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    path = tmp_path / f"inner/evil.{ending}"
    hostile_zip(path) if ending == "zip" else hostile_tar(path, "w" if ending == "tar" else "w:gz")
    before, absolute = everything(tmp_path), Path("/tmp/absolute.jpg").exists()
    done = cli("predict", f"inner/evil.{ending}", "--no-detect")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert everything(tmp_path) == before
    assert Path("/tmp/absolute.jpg").exists() == absolute
    records = {row["source"].split("/", 2)[2]: row for row in map(json.loads, done.stdout.splitlines())}
    assert records["../up.jpg"]["status"] == records["/tmp/absolute.jpg"]["status"] == "ok"
    assert "too large" in records["bomb.jpg"]["error"]
    assert all(
        "link" in row["error"] for name, row in records.items() if name in ("symbolic.jpg", "hard.jpg", "device.jpg")
    )
    assert len(records) == (4 if ending == "zip" else 7)


def test_a_small_archive_of_endless_zeros_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_SKIPPED", 1 << 22)
    with tarfile.open(tmp_path / "zeros.tar.gz", "w:gz") as tar:
        for name in ("a.bin", "b.bin", "c.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 1 << 22
            tar.addfile(info, Zeros())  # type: ignore[arg-type]
    (row,) = rows(str(tmp_path / "zeros.tar.gz"))
    assert "no pictures: the rest of it is not read" in row["error"]


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip", "parquet"])
def test_damaged_containers_are_records(folder: Path, tmp_path: Path, ending: str) -> None:
    whole = (folder / ("structs.parquet" if ending == "parquet" else f"photos.{ending}")).read_bytes()
    for number, content in enumerate((b"", b"no archive at all", whole[: len(whole) // 2], whole[:600])):
        path = tmp_path / f"{number}.{ending}"
        path.write_bytes(content)
        found = rows(str(path))
        assert found
        assert any(row["status"] == "unreadable" for row in found)
    (tmp_path / f"folder.{ending}").mkdir()
    assert rows(str(tmp_path / f"folder.{ending}"))[0]["status"] == "unreadable"
    assert rows(str(tmp_path / f"none.{ending}"))[0]["error"] == "there is no such file"


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_a_tar_that_is_cut_short_gives_the_pictures_before_the_cut(tmp_path: Path, ending: str) -> None:
    path, count = tmp_path / f"a.{ending}", 40
    content = [os.urandom(60_000) for _ in range(count)]  # which compression leaves as long as it is
    mode: Any = f"w:{ending[4:]}"
    with tarfile.open(path, mode) as archive:
        for number, data in enumerate(content):
            info = tarfile.TarInfo(f"{number:02d}.jpg")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    archived = path.read_bytes()
    for share in (0.9, 0.5):
        path.write_bytes(archived[: int(count * 60_000 * share)])
        found = [item for item in list_members(str(path)) if isinstance(item, members.Member)]
        assert "damaged" in found[-1].error
        whole = [item for item in load(found[:-1]) if _bytes_of(item) in content]
        least = share * count - (1.5 if ending != "tar.bz2" else 16)  # bzip2 has blocks of 900 kB
        assert least <= len(whole) <= share * count
        assert [_bytes_of(item) for item in whole] == content[: len(whole)]
        assert len(found) - 1 - len(whole) <= 1  # the picture that is cut itself


def _bytes_of(item: members.Member | members.Blob) -> bytes:
    if isinstance(item, members.Blob):
        return item.data
    try:
        return open_member(item).read()
    except UnreadableError:
        return b""


def test_draw_needs_files(folder: Path, tmp_path: Path) -> None:
    done = invoke("predict", folder / "photos.tar", "--no-detect", "--draw", tmp_path / "drawn")
    assert done.exit_code == 2
    assert "is in an archive" in done.stderr


# addresses


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """The folder on a loopback address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_addresses_of_files_and_archives_give_the_same_records(server: str, expected: list[dict[str, Any]]) -> None:
    names = [f"{server}/photos/{name}" for name in sorted(NAMES)]
    assert rows(names, f"{server}/photos/") == expected
    for archive in ("photos.tar", "photos.zip", "photos.tar.gz", "structs.parquet"):
        assert rows(f"{server}/{archive}", f"{server}/{archive}/") == expected
    assert rows(f"{server}/photos/", f"{server}/photos/") == expected


def test_an_address_that_is_not_there_is_a_record_among_others(server: str, folder: Path) -> None:
    found = rows(
        [f"{server}/photos/0.jpg", f"{server}/none.jpg", "http://127.0.0.1:1/x.jpg", str(folder / "photos/1.jpg")]
    )
    assert [row["status"] for row in found] == ["ok", "unreadable", "unreadable", "ok"]
    assert found[1]["error"] == "there is no such file"
    assert "it can't be fetched" in found[2]["error"]


def test_files_in_memory_give_the_same_records(folder: Path, expected: list[dict[str, Any]]) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in NAMES:
        memory.pipe(f"/photos/{name}", (folder / "photos" / name).read_bytes())
    memory.pipe("/photos.zip", (folder / "photos.zip").read_bytes())
    assert rows("memory://photos", "memory:///photos/") == expected
    assert [row["source"] for row in rows("memory://photos/?.jpg", "memory:///photos/")] == sorted(NAMES)[:5]
    assert rows("memory://photos.zip", "memory://photos.zip/") == expected


def test_shards_read_addresses(server: str, cli: Cli, tmp_path: Path) -> None:
    inputs = (f"{server}/photos/", f"{server}/photos.tar")
    cli("predict", *inputs, "--no-detect", "-o", "one.jsonl")
    cli("predict", *inputs, "--no-detect", "--out", "out", "--shards", 3)
    agecli.merge(tmp_path / "out", tmp_path / "two.jsonl")
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_a_store_whose_package_is_missing_is_exit_3_with_the_line_to_type(cli: Cli) -> None:
    for address, package in (("s3://bucket/a.jpg", "s3fs"), ("gs://bucket/", "gcsfs"), ("s3://bucket/x.tar", "s3fs")):
        done = invoke("predict", address)
        assert done.exit_code == 3
        assert f"pip install {package}" in done.stderr
    done = invoke("predict", "nowhere://x/a.jpg")
    assert done.exit_code == 2
    assert "nowhere" in done.stderr


def test_outputs_of_other_commands_at_an_address_are_refused_and_no_folder_is_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("preprocess", folder / "photos", "--out"), ("status", folder, "--output"), ("train", "--out")):
        done = invoke(*command, "s3://bucket/ages.jsonl")
        assert done.exit_code == 2
        assert "is an address, and outputs are files here" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_addresses_without_fsspec_are_exit_3(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'fsspec' else find(name, *more)\n"
        "sys.argv = ['agecli', 'predict', 'https://127.0.0.1:1/a.jpg']; from agecli.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=os.environ)
    assert done.returncode == 3
    assert "pip install 'agecli[remote]'" in done.stderr
