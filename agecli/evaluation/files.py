"""Model files that can be measured: checkpoints on torch, and ONNX files of `export` and `calibrate` on onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agecli.core.config import Config, replace
from agecli.model.card import Card
from agecli.model.checkpoint import Checkpoint, load_checkpoint
from agecli.model.predictors import Predictor, load_predictor


@dataclass(frozen=True)
class ModelFile:
    """A loaded model file: `checkpoint`, or for ONNX `predictor`; the other is None."""

    card: Card
    config: Config  # of an ONNX file, which has none: the defaults, with its age grid
    checkpoint: Checkpoint | None = None
    predictor: Predictor | None = None


def load_file(path: Path, device: str = "auto") -> ModelFile:
    """Load a model file; by its name, *.onnx runs on onnxruntime.

    Raises MissingError if it is not there, InputError if it can't be used, or is ONNX and `device` is not a CPU.
    """
    if path.suffix != ".onnx":
        checkpoint = load_checkpoint(path)
        return ModelFile(checkpoint.card, checkpoint.config, checkpoint)
    predictor = load_predictor(path, device)
    grid = predictor.card.grid
    config = replace(Config(), {"ages.low": grid.low, "ages.high": grid.high})
    return ModelFile(predictor.card, config, predictor=predictor)
