"""Help texts name what the code accepts: they are written out, because importing the lists would slow every command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

import pytest

from agecli.cli.options import DATASETS, SETUPS
from agecli.cli.options import DETECTORS as DETECTORS_HELP
from agecli.core.config import Setup
from agecli.datasets.sources import NAMES
from agecli.images.detection import DETECTORS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (DATASETS, NAMES),
        (SETUPS.removeprefix("The protocol: "), get_args(Setup)),
        (DETECTORS_HELP, ("auto", *DETECTORS)),
    ],
)
def test_a_help_text_lists_every_name(text: str, names: Iterable[str]) -> None:
    assert set(re.split(", | or ", text.rstrip("."))) == set(names)
