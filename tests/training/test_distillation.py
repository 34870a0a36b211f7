"""Distillation: a model comes closer to its teacher's routing, and the teacher must have the same forest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError
from agecli.datasets.manifest import read_manifest
from agecli.forest.routing import divergence
from agecli.model.checkpoint import load_checkpoint
from agecli.training.batches import Faces, every_face
from agecli.training.distillation import teacher_units
from tests.conftest import Cli

PIXELS: dict[str, Any] = {"backbone": "timm:test_efficientnet", "weights": "none", "batch_size": 16}
SETTINGS = {"data.size": 64, "training.eval_every": 1000}


@pytest.fixture(scope="module")
def teacher(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frozen run of a few seconds."""
    out = tmp_path_factory.mktemp("teacher") / "run"
    agecli.train(data=toy, out=out, iterations=150, freeze=True, settings=SETTINGS, **PIXELS)
    return out / "fold-1/last.safetensors"


def pixels_of(folder: Path, checkpoint: Path) -> tuple[list[int], torch.Tensor]:
    """The indices of some faces and their pixels."""
    manifest = read_manifest(folder, AgeGrid())
    faces = Faces(manifest.folder, manifest.samples[:24], load_checkpoint(checkpoint).model.picture)
    (batch,) = every_face(faces, 24, 0)
    return list(batch.indices), batch.inputs


def test_the_teacher_is_averaged_over_a_face_and_its_mirror_image(toy: Path, teacher: Path) -> None:
    model = load_checkpoint(teacher).model.eval()
    indices, pixels = pixels_of(toy, teacher)
    units = teacher_units(str(teacher), model, read_manifest(toy, AgeGrid()), indices, torch.device("cpu"))
    with torch.inference_mode():
        features = (model.extractor(pixels) + model.extractor(pixels.flip(-1))) / 2
        assert torch.allclose(units, model.head(features), atol=1e-4)


def test_a_model_comes_closer_to_its_teacher(toy: Path, teacher: Path, tmp_path: Path) -> None:
    indices, pixels = pixels_of(toy, teacher)
    manifest = read_manifest(toy, AgeGrid())
    apart = {}
    for distil in (0.0, 10.0):
        chosen = SETTINGS | {
            "training.teacher": str(teacher),
            "training.distil": distil,
            "data.augment": "none",
            "training.warmup": 0,
        }
        out = tmp_path / f"student-{distil:g}"
        agecli.train(data=toy, out=out, init=str(teacher), iterations=40, lr=0.003, batch_size=16, settings=chosen)
        student = load_checkpoint(out / "fold-1/last.safetensors").model.eval()
        goal = teacher_units(str(teacher), student, manifest, indices, torch.device("cpu"))
        with torch.inference_mode():
            forest = student.forest
            apart[distil] = float(divergence(forest.route(goal), forest.route(student.network(pixels))))
    assert apart[10.0] < 0.7 * apart[0.0]


def test_a_teacher_with_another_forest_is_refused(toy: Path, teacher: Path, tmp_path: Path) -> None:
    chosen = SETTINGS | {"training.teacher": str(teacher), "forest.trees": 3}
    with pytest.raises(InputError, match=r"the forest of the teacher .* differs"):
        agecli.train(data=toy, out=tmp_path / "run", iterations=5, settings=chosen, **PIXELS)


def test_a_teacher_says_nothing_of_blended_faces(cli: Cli, toy: Path, teacher: Path) -> None:
    done = cli("train", "--data", toy, "--set", f"training.teacher={teacher}", "--set", "data.blend=0.5")
    assert done.returncode == 2
    assert "a teacher says nothing of blended faces" in done.stderr
