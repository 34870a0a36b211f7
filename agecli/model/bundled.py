"""The bundled model: where its files are, and how users name it."""

from __future__ import annotations

from pathlib import Path

from agecli.core.errors import InputError, MissingError

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


def name_of(path: Path) -> str:
    """A model file as users name it, the inverse of `named`: "default" for the bundled model, else the path."""
    return DEFAULT if path.parent in FOLDERS and path.stem == DEFAULT else str(path)


def check_checkpoint_file(path: Path) -> None:
    """Check, without torch, that a path can be a checkpoint.

    Raises MissingError if there is no such file, InputError for a folder, for an ONNX file and for any other file that does
    not begin as a safetensors file does: with the length of a header, and a header in JSON.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder", hint=f"name a checkpoint in it: {path / 'fold-1' / 'best.safetensors'}")
    if not path.is_file():
        removed = (path.parent / "metrics.csv").is_file()
        raise MissingError(
            f"there is no checkpoint {path}",
            hint="its fold is finished, but a study keeps the first fold's only: run it with --keep"
            if removed
            else "`agecli train` makes one: runs/NAME/fold-1/best.safetensors",
        )
    if path.suffix == ".onnx":
        raise InputError(f"{path} is an exported graph", hint="name the checkpoint (.safetensors) it was made of")
    with path.open("rb") as file:
        length, brace = int.from_bytes(file.read(8), "little"), file.read(1)
    if brace != b"{" or length > path.stat().st_size:
        raise InputError(
            f"{path} is no model: neither a whole safetensors file nor ONNX",
            hint="name a checkpoint (.safetensors), or an exported model (.onnx); was the copy cut short?",
        )
