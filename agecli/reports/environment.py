"""The environment for a bug report: versions, devices, and where weights and caches are. Works without torch."""

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
    """Names and values, one pair for each line of `agecli info`.

    Packages of extras that are not installed are marked so; without torch, the last line says how to install them.
    Example: `dict(lines())["numpy"]`
    """
    yield "agecli", __version__
    yield "python", f"{platform.python_version()} ({platform.platform()})"
    yield from package_versions().items()
    yield "cpu", f"{os.cpu_count()} cores"
    for folder in FOLDERS:
        for path in sorted(folder.glob(f"{DEFAULT}.*")):
            yield f"model {path.name}", f"{path} ({file_hash(path)[:12]})"
    if importlib.util.find_spec("torch"):
        yield from _torch_lines()
    else:
        yield "training", "not installed; to install it: pip install 'agecli[train]'"


def _torch_lines() -> Iterator[tuple[str, str]]:
    """Devices, weights and caches of training."""
    import torch

    from agecli.model.backbones import wheel_weights
    from agecli.training.features import cache_folder

    yield "threads", f"{torch.get_num_threads()}, OMP_WAIT_POLICY={os.environ.get('OMP_WAIT_POLICY')}"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield "cuda", ", ".join(gpus) or "not available"
    yield "mps", "available" if torch.backends.mps.is_available() else "not available"
    default = Config().backbone.name
    yield "default backbone", f"{default}: {wheel_weights(default) or 'weights are downloaded when first used'}"
    yield "torchvision weights", str(Path(torch.hub.get_dir()) / "checkpoints")
    yield "timm weights", os.environ.get("HF_HOME", str(Path.home() / ".cache" / "huggingface"))
    yield "feature cache", _with_size(cache_folder() / "features.sqlite")


def _with_size(path: Path) -> str:
    return f"{path} ({path.stat().st_size / 1e6:.0f} MB)" if path.is_file() else f"{path} (empty)"
