"""Stamping: a model file with another calibration, shift reference or fingerprint, and the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.model.fingerprint import KEY, Fingerprint
from agecli.model.metadata import read_metadata, write_metadata
from agecli.scoring.calibration import Calibration
from agecli.scoring.shift import ShiftReference


def stamp(
    model: Path,
    out: Path,
    *,
    calibration: Calibration | None = None,
    shift: ShiftReference | None = None,
    fingerprint: Fingerprint | None = None,
) -> None:
    """Write a copy of a model file, ONNX or safetensors, with what is given replaced; `out` may be `model`.

    Raises MissingError if it is not there, InputError if it is no model of agecli.
    """
    card = "agecli" if model.suffix == ".onnx" else "header"  # where each kind of file keeps its settings
    changes: dict[str, str] = {}
    try:
        fields: dict[str, Any] = json.loads(read_metadata(model)[card])
    except (KeyError, ValueError) as error:
        raise InputError(f"{model} was not made by agecli", hint="use a file of `train` or `export`") from error
    fields |= {
        name: value.header() for name, value in (("calibration", calibration), ("shift", shift)) if value is not None
    }
    changes[card] = json.dumps(fields)
    if fingerprint:
        changes[KEY] = fingerprint.to_json()
    write_metadata(model, out, changes)
