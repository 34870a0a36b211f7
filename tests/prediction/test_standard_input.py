"""A picture on stdin is a picture; everything else is a list of names, which is not waited for."""

from __future__ import annotations

import io
import json
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agecli.core.errors import InputError
from agecli.images.crops import FaceCropper
from agecli.images.reading import PictureSpec, read_picture
from agecli.prediction.inputs import InputCropper, read_inputs
from agecli.prediction.standard_input import StoredPicture, kind_of, picture_or_names
from benchmarks.attack.odd_inputs import SITECUSTOMIZE, poisoned_environment
from tests.conftest import Cli

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"


def encoded(kind: str, size: tuple[int, int] = (60, 40)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, "orange").save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_a_picture_is_recognised_by_its_first_bytes(kind: str) -> None:
    (found,) = read_inputs("-", stdin=io.BytesIO(encoded(kind)))
    assert isinstance(found, StoredPicture)
    assert found.source == "-"
    pixels = np.asarray(read_picture(Path(found.path))).astype(int)
    assert pixels.shape == (40, 60, 3)
    assert abs(pixels[20, 30] - (255, 165, 0)).max() < 12


@given(st.binary(max_size=40).map(lambda name: name.replace(b"\0", b"")))
def test_anything_else_is_handed_on_from_its_first_byte(data: bytes) -> None:
    if kind_of(data) is None:
        stream = picture_or_names(io.BytesIO(data))
        assert isinstance(stream, io.BufferedReader)
        assert stream.read() == data


@pytest.mark.parametrize(
    "names", [["GIF89a.jpg", "b.jpg"], ["BMW.jpg"], ["RIFF.webp"], ["II*.tif"], ["caf\udce9.jpg"], []]
)
@pytest.mark.parametrize("null", [False, True])
def test_names_that_begin_like_pictures_are_names(names: list[str], null: bool) -> None:
    end = b"\0" if null else b"\n"
    data = b"".join(os.fsencode(name) + end for name in names)
    if names != ["II*.tif"] or not null:
        assert list(read_inputs("-", null, stdin=io.BytesIO(data))) == names


def test_the_first_name_is_used_before_the_second_is_known() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as reader, os.fdopen(theirs, "wb") as writer:
        writer.write(b"G\n")  # the first letter of GIF
        writer.flush()
        names = read_inputs("-", stdin=reader)
        first: list[object] = []
        thread = threading.Thread(target=lambda: first.append(next(names)), daemon=True)
        thread.start()
        thread.join(5)
        assert first == ["G"]
        writer.close()
        assert list(names) == []


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_several_pictures_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match="more than one picture") as error:
        list(read_inputs("-", stdin=io.BytesIO(encoded(kind) + encoded("JPEG"))))
    assert "ls *.jpg | agecli predict -" in error.value.hint
    (found,) = read_inputs("-", stdin=io.BytesIO(encoded(kind) + b"\n\0"))  # what cameras append is no picture
    assert isinstance(found, StoredPicture)


def test_a_thumbnail_is_no_second_picture() -> None:
    with Image.open(EXAMPLE) as image:
        exif = image.getexif()
        exif[0x927C] = encoded("JPEG", (16, 16)) * 2  # a maker's note with previews
        stream = io.BytesIO()
        image.save(stream, "JPEG", exif=exif, progressive=True)
    (found,) = read_inputs("-", stdin=io.BytesIO(stream.getvalue()))
    assert isinstance(found, StoredPicture)


def test_what_can_not_be_decoded_is_a_record_and_a_video_an_error() -> None:
    (found,) = read_inputs("-", stdin=io.BytesIO(encoded("PNG")[:50]))
    assert isinstance(found, StoredPicture)
    read = InputCropper(FaceCropper(PictureSpec(64, 1.0, (0, 0, 0), (1, 1, 1)), None))(found)
    assert (read.source, read.status) == ("-", "unreadable")
    with pytest.raises(InputError, match="standard input is a video"):
        list(read_inputs("-", stdin=io.BytesIO(b"\0\0\0\x20ftypisom" + bytes(20))))


def test_cat_photo_into_predict(cli: Cli) -> None:
    piped, named = (cli("predict", name, "-f", "csv", stdin=EXAMPLE.read_bytes()) for name in ("-", EXAMPLE))
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == named.stdout.replace(str(EXAMPLE), "-")
    refused = cli("predict", "-", "--draw", "drawn", stdin=EXAMPLE.read_bytes())
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "draw needs files, and `-` is in memory" in refused.stderr


def test_the_stored_picture_is_the_file_and_is_deleted_with_its_last_reference() -> None:
    (found,) = read_inputs("-", stdin=io.BytesIO(EXAMPLE.read_bytes()))
    assert isinstance(found, StoredPicture)
    path = Path(found.path)
    assert path.read_bytes() == EXAMPLE.read_bytes()
    copy = pickle.loads(pickle.dumps(found))  # as it is sent to a worker process
    assert (copy.source, copy.path) == ("-", str(path))
    del copy
    assert path.exists()
    del found
    assert not path.exists()


def test_a_picture_that_kills_its_reader_is_a_record(cli: Cli, tmp_path: Path) -> None:
    poisoned = poisoned_environment(tmp_path)
    poison = SITECUSTOMIZE.replace('"segfault"', '"agecli-stdin"')
    (tmp_path / "sitecustomize.py").write_text(poison)
    done = cli("predict", "-", stdin=EXAMPLE.read_bytes(), **poisoned)
    assert done.returncode == 1, done.stderr
    assert (json.loads(done.stdout)["source"], json.loads(done.stdout)["status"]) == ("-", "crashed")
