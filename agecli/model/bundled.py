"""The bundled model: where its files are, and how users name it."""

from __future__ import annotations

from pathlib import Path

from agecli.core.errors import MissingError

DEFAULT = "default"  # its name, wherever a model can be given
HERE = Path(__file__).parent.parent
FOLDERS = (HERE / "models", HERE.parent / "models")  # in an installed package; in a clone


def bundled(suffix: str) -> Path:
    """The path of the bundled model: ".onnx" to predict with, ".safetensors" to train from or to run on a GPU.

    Raises MissingError if the installation lacks the file.
    """
    for folder in FOLDERS:
        if (path := folder / f"{DEFAULT}{suffix}").is_file():
            return path
    raise MissingError(
        f"the bundled model (models/{DEFAULT}{suffix}) is missing",
        hint="install agecli again, or name a model of your own: runs/NAME/fold-1/best.safetensors",
    )


def to_run(model: str | Path | None, device: str) -> Path:
    """The model file to predict with. The bundled model runs as ONNX on the CPU and as a checkpoint elsewhere.

    Raises MissingError if the bundled model is meant and missing; other paths are not checked.
    """
    return named(model, ".onnx" if device in ("auto", "cpu") else ".safetensors")


def named(model: str | Path | None, suffix: str) -> Path:
    """The file of a model as users name it: a path as it is; None or "default" is the bundled model.

    suffix: the kind of file wanted of the bundled model.   Example: `named("default", ".onnx")`
    """
    return bundled(suffix) if model is None or str(model) == DEFAULT else Path(model)
