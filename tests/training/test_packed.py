"""Training on packed faces: the same batches, weights and numbers as on the same faces in files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agecli.core.ages import AgeGrid
from agecli.datasets.manifest import read_manifest
from agecli.images.reading import PictureSpec
from agecli.training.augmentation import Augmentation
from agecli.training.batches import Faces, Stream, every_face, training_batches
from tests.conftest import Cli, invoke
from tests.training.test_distributed import SMALL, assert_ranks_are_equal, train_on_two_ranks

SPEC = PictureSpec(48, 0.875, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
ITERATIONS = ("--batch-size", "16", "--iterations", "8")


@pytest.fixture(scope="module")
def folders(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The toy faces in files, and in three tars."""
    place = tmp_path_factory.mktemp("packed")
    for name, more in (("files", ()), ("tars", ("--pack", "--shard-size", "50"))):
        done = invoke("preprocess", toy, "--out", place / name, "--no-detect", "--size", "64", *more)
        assert done.exit_code == 0, done.output
    assert len(list((place / "tars").glob("faces-*.tar"))) == 3
    assert not (place / "tars/faces").exists()
    return place / "files", place / "tars"


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_tars_are_those_of_files(folders: tuple[Path, Path], workers: int) -> None:
    batches = []
    for folder in folders:
        samples = read_manifest(folder, AgeGrid()).samples
        faces = Faces(folder, samples, SPEC, Augmentation("modern", SPEC), seed=3)
        stream = Stream(len(samples), batch_size=16, seed=3, start=5, stop=9)
        batches.append([*training_batches(faces, stream, workers, pin=False), *every_face(faces, 32, workers)])
    for one, two in zip(*batches, strict=True):
        assert torch.equal(one.inputs, two.inputs)
        assert torch.equal(one.ages, two.ages)
        assert not one.broken
        assert not two.broken


def test_a_face_that_a_tar_no_longer_has_is_left_out(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for path in folders[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "faces-00001.tar").write_bytes(b"")
    samples = read_manifest(tmp_path, AgeGrid()).samples
    (batch,) = every_face(Faces(tmp_path, samples, SPEC), 120, workers=0)
    assert (len(batch.indices), len(batch.broken)) == (70, 50)
    assert "faces-00001.tar ends before it does" in batch.broken[0][1]


def metadata(path: Path) -> dict[str, Any]:
    """The metadata of a checkpoint by name: safetensors writes them in any order, so that bytes of files may differ."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    found: dict[str, Any] = json.loads(content[8 : 8 + size])["__metadata__"]
    return found


def assert_same_model(one: Path, two: Path) -> None:
    """Two runs have the same weights and leaves bit for bit, and the same numbers."""
    for name in ("best.safetensors", "last.safetensors"):
        first, second = load_file(one / "fold-1" / name), load_file(two / "fold-1" / name)
        assert first.keys() == second.keys()
        assert not [key for key, value in first.items() if not torch.equal(value, second[key])]
        assert metadata(one / "fold-1" / name) == metadata(two / "fold-1" / name)
    for name in ("predictions.csv", "metrics.csv"):
        assert (one / "fold-1" / name).read_bytes() == (two / "fold-1" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("more", [("--workers", "2"), ("--freeze",)])
def test_a_model_trained_on_tars_is_that_of_files(
    cli: Cli, folders: tuple[Path, Path], tmp_path: Path, more: tuple[str, ...]
) -> None:
    measured = []
    for folder in folders:
        own = {"AGECLI_CACHE": str(tmp_path / f"cache-{folder.name}")}  # else the features of one would serve the other
        done = cli("train", "--data", folder, "--out", folder.name, *SMALL, *ITERATIONS, *more, **own)
        assert done.returncode == 0, done.stderr
        checkpoint = tmp_path / folder.name / "fold-1/best.safetensors"
        done = cli("evaluate", checkpoint, "--data", folder, "--allow-seen", "-f", "csv", **own)
        assert done.returncode == 0, done.stderr
        measured.append(done.stdout)
    assert_same_model(tmp_path / "files", tmp_path / "tars")
    assert measured[0] == measured[1]
    assert ",120," in measured[0]


@pytest.mark.slow
def test_two_ranks_train_on_tars_as_on_files(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for folder in folders:
        place = tmp_path / folder.name
        place.mkdir()
        done = train_on_two_ranks(
            place, "--data", str(folder), "--out", "run", *SMALL, *ITERATIONS, "--workers", "1", "--format", "csv"
        )
        assert done.returncode == 0, done.stderr
        assert_ranks_are_equal(place)
    assert_same_model(tmp_path / "files/run", tmp_path / "tars/run")
