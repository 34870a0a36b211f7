"""What a bug report needs to say: versions, devices, and where files are looked for."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from agecli.core.config import Config
from agecli.core.files import file_hash
from agecli.core.version import __version__
from agecli.model.bundled import DEFAULT, FOLDERS
from agecli.training.run_folder import package_versions


def lines() -> Iterator[tuple[str, str]]:
    """Yields (name, value) for each line of `agecli info`; without torch, those about training are left out.

    >>> dict(lines())["agecli"]
    '0.1.0'
    """
    yield "agecli", __version__
    yield "python", f"{platform.python_version()} ({platform.platform()})"
    yield from package_versions().items()
    yield "cpu", f"{os.cpu_count()} cores, OMP_WAIT_POLICY={os.environ.get('OMP_WAIT_POLICY')}"
    for folder in FOLDERS:
        for path in sorted(folder.glob(f"{DEFAULT}.*")):
            yield f"model {path.name}", f"{path} ({file_hash(path)[:12]})"
    if importlib.util.find_spec("torch") is None:
        yield "training", "not installed: pip install 'agecli[train]'"
    else:
        yield from _training_lines()


def _training_lines() -> Iterator[tuple[str, str]]:
    """Devices that torch can use, and where weights and features are kept."""
    import torch

    from agecli.model.backbones import wheel_weights
    from agecli.training.features import cache_folder

    yield "torch threads", str(torch.get_num_threads())
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield "cuda", ", ".join(gpus) or "not available"
    yield "mps", "available" if torch.backends.mps.is_available() else "not available"
    default = Config().backbone.name
    yield "default backbone", f"{default}: {wheel_weights(default) or 'weights are downloaded when first used'}"
    yield "torchvision weights", str(Path(torch.hub.get_dir()) / "checkpoints")
    yield "timm weights", os.environ.get("HF_HOME", str(Path.home() / ".cache" / "huggingface"))
    yield "feature cache", _size(cache_folder() / "features.sqlite")


def _size(path: Path) -> str:
    return f"{path} ({path.stat().st_size / 1e6:.0f} MB)" if path.is_file() else f"{path} (empty)"
