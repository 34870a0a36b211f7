"""Backbones with a fixed input: the size, pixel scaling, crop and alignment that their weights were trained for.

No torch here: `preprocess --for` reads it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agecli.images.alignment import Alignment


@dataclass(frozen=True)
class BackboneSpec:
    """A network of `agecli.model.backbones` and the faces its weights need.

    Example: `SPECS["edgeface_s"].alignment` is the alignment of the crops it is trained on.
    """

    network: str  # as build_backbone knows it
    size: int  # pixels, side of the input
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    stages: int  # the last stages whose pooled feature maps are the features
    alignment: Alignment  # of the crops; larger than the input, so that augmentation has a margin
    weights: str  # where to get them

    def settings(self) -> dict[str, Any]:
        """The settings of a run that follow from the backbone."""
        share = self.size / self.alignment.size
        return {"data.size": self.size, "data.crop_share": share, "backbone.stages": self.stages}


# ArcFace's template at 112 px: eyes at (38.3, 51.7) and (73.5, 51.5), so 0.315 of the side apart and 0.461 below the top;
# here 16 px more on each side.
ARCFACE = Alignment(144, 0.245, 0.46967)

SPECS = {
    "edgeface_s": BackboneSpec(
        "timm:edgenext_small",
        112,
        (0.5, 0.5, 0.5),
        (0.5, 0.5, 0.5),
        3,
        ARCFACE,
        "EdgeFace-S (Idiap) as weights of timm's edgenext_small",
    )
}
