"""f's inputs are standardised from the first faces, whatever the backbone, and frozen layers stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agecli.core.ages import AgeGrid
from agecli.core.config import Config, replace
from agecli.datasets.manifest import Manifest, read_manifest
from agecli.datasets.toy import draw_faces
from agecli.model.network import AgeModel, build_model
from agecli.training.batches import Faces, every_face
from agecli.training.inputs import PixelInputs

CPU = torch.device("cpu")
SMALL = {"backbone.name": "timm:test_efficientnet", "backbone.weights": "none", "data.size": 64}


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder: Path = tmp_path_factory.mktemp("faces") / "toy"
    draw_faces(folder, 32)
    return read_manifest(folder, AgeGrid())


def features(model: AgeModel, faces: Manifest) -> torch.Tensor:
    (batch,) = every_face(Faces(faces.folder, faces.samples, model.picture), len(faces.samples), 0)
    with torch.no_grad():
        values: torch.Tensor = model.scale(model.extractor.train()(batch.inputs))
    return values


@pytest.mark.parametrize("stages", [0, 2])
def test_logits_start_alive_though_features_are_tiny(faces: Manifest, stages: int) -> None:
    config = replace(Config(), {**SMALL, "backbone.stages": stages})
    model = build_model(config)
    before = {name: value.clone() for name, value in model.backbone.state_dict().items()}
    PixelInputs(faces, config, CPU, 0).standardise(model, range(32))
    assert all(torch.equal(before[name], value) for name, value in model.backbone.state_dict().items())
    values = features(model, faces)
    assert values.mean().abs().item() < 0.05
    assert 0.3 < values.std(0).median().item() < 1.1
    logits = model.f(values)
    assert 0.02 < logits.std().item() < 0.5


def test_frozen_layers_get_no_gradient_and_no_rate(faces: Manifest) -> None:
    config = replace(Config(), {**SMALL, "backbone.frozen_layers": 2})
    model = build_model(config)
    parts = PixelInputs(faces, config, CPU, 0).trained(model)
    learned = {id(weights) for part in parts for weights in part.weights}
    frozen = [weights for weights in model.backbone.parameters() if id(weights) not in learned]
    assert frozen
    assert not any(weights.requires_grad for weights in frozen)
    assert all(weights.requires_grad for part in parts for weights in part.weights)
