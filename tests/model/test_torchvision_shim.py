"""The import of torchvision works here, with and without its compiled operators."""

from __future__ import annotations

import torch

from agecli.model.torchvision_shim import torchvision, v2


def test_models_and_transforms_work() -> None:
    assert "vgg16" in torchvision.models.list_models()
    assert v2.RandomCrop(8)(torch.zeros(3, 16, 16, dtype=torch.uint8)).shape == (3, 8, 8)
