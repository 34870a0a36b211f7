"""Help texts name what the code accepts: they are written out, because importing the lists would slow every command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

import pytest

from agecli.cli.options import DATASETS, SETUPS
from agecli.cli.options import DETECTORS as DETECTORS_HELP
from agecli.cli.predict import Format
from agecli.core.config import Setup
from agecli.datasets.sources import NAMES
from agecli.images.detection import DETECTORS
from agecli.prediction.writing import FORMATS
from tests.conftest import invoke


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


def test_predict_offers_every_format() -> None:
    assert tuple(form.value for form in Format) == FORMATS


def test_the_help_of_predict_is_in_groups_and_ends_with_examples() -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", invoke("predict", "--help").stdout)
    places = [text.index(f"─ {group} ─") for group in ("Options", "Inputs", "Faces", "Records", "Output")]
    assert [*places, text.index("Examples:")] == sorted([*places, text.index("Examples:")])
    options = text[: text.index("Examples:")]
    for option in set(re.findall(r" (--[a-z-]+)", text[text.index("Examples:") :])):
        assert option in options
