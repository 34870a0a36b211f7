"""What the tests of the server share: one server with default settings, and photos."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from tests.serving.running import PORTRAIT, Running, running


@pytest.fixture(scope="package")
def server() -> Iterator[Running]:
    """A server with one worker; it must still run when all tests are done."""
    with running("-v") as started:
        yield started
        assert started.get("/healthz").status == 200


@pytest.fixture(scope="session")
def portrait() -> bytes:
    return PORTRAIT.read_bytes()


@pytest.fixture(scope="session")
def couple() -> bytes:
    """A photo of two faces, one smaller than the other, as PNG."""
    face = Image.open(PORTRAIT).convert("RGB")
    picture = Image.new("RGB", (face.width * 2, face.height), "grey")
    picture.paste(face, (0, 0))
    picture.paste(face.resize((face.width * 3 // 4, face.height * 3 // 4)), (face.width + 20, 40))
    return encoded(picture, "PNG")


@pytest.fixture(scope="session")
def noise() -> bytes:
    """A picture without a face."""
    return encoded(Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 120, 3), np.uint8)), "PNG")


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """A picture as the bytes of a file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
