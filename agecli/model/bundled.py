"""The bundled model: where the files that come with agecli are, and what they are called."""

from __future__ import annotations

from pathlib import Path

from agecli.core.errors import MissingError

DEFAULT = "default"  # what users call it, wherever a model can be named
HERE = Path(__file__).parent.parent
FOLDERS = (HERE / "models", HERE.parent / "models")  # in an installed package; in a clone


def bundled(suffix: str) -> Path:
    """The default model as a graph to run (.onnx), or as a checkpoint to go on from (.safetensors)."""
    for folder in FOLDERS:
        if (path := folder / f"{DEFAULT}{suffix}").is_file():
            return path
    raise MissingError(
        f"the bundled model (models/{DEFAULT}{suffix}) is not here",
        hint="install agecli again, or name a model of yours: runs/NAME/fold-1/best.safetensors",
    )


def to_run(model: str | Path | None, device: str) -> Path:
    """The model to predict with: onnxruntime has the CPU, torch all other devices."""
    return named(model, ".onnx" if device in ("auto", "cpu") else ".safetensors")


def named(model: str | Path | None, suffix: str) -> Path:
    """The model that a user means: a file, or the bundled one if none is named, or by its name."""
    return bundled(suffix) if model is None or str(model) == DEFAULT else Path(model)
