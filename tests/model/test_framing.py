"""Every backbone and every model says how its faces are aligned."""

from __future__ import annotations

import pytest

from agecli.core.errors import MissingError
from agecli.images.alignment import Alignment
from agecli.model.framing import alignment_for
from agecli.model.specs import SPECS


def test_a_face_network_has_its_own_frame() -> None:
    assert alignment_for("edgeface_s") == SPECS["edgeface_s"].alignment


@pytest.mark.parametrize("name", ["resnet18", "timm:edgenext_small"])
def test_classifiers_get_the_default_frame(name: str) -> None:
    assert alignment_for(name) == Alignment()


def test_the_bundled_model_knows_its_frame() -> None:
    assert alignment_for("default").size > 0


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(MissingError, match="no backbone and no file"):
        alignment_for("resent18")
