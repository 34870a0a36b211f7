"""Devices: which one to use, its random state, its threads and its memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from agecli.core.errors import InputError, MissingError


def pick_device(name: str) -> torch.device:
    """The device of `--device`; `auto` is CUDA, else MPS, else the CPU. There is no silent fallback.

    Raises InputError for an unknown name, MissingError for a device that this machine does not have.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"unknown device `{name}`", hint="use auto, cpu, cuda, cuda:N or mps")
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))  # each process of torchrun has its own
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[device.type]
    if (device.index or 0) >= there:
        raise MissingError(
            f"device {name} is not there: this machine has {there} {device.type} device(s)",
            hint="use --device auto or --device cpu, or look at `agecli info`",
        )
    return device


def draw_from(seed: int, device: torch.device) -> None:
    """Seed torch's generators of the CPU and this device. `torch.manual_seed` also queues a call, with a stack trace, for
    each kind of device that is missing, in a list that grows for ever: a third of the time of a small training step."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


@contextmanager
def one_thread(wanted: bool) -> Iterator[None]:
    """Use one CPU thread while the block lasts, if `wanted`: for matrices so small that a second one costs time."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_device(inputs: Tensor, device: torch.device) -> Tensor:
    """Move inputs to a device; pixels (B, 3, H, W) in channels-last format, which is faster: 810 against 1276 ms for a
    training step of EfficientNet-Lite0 at 224 px, batch 16, on a CPU (benchmarks/memory.py)."""
    layout = torch.channels_last if inputs.ndim == 4 else torch.preserve_format
    return inputs.to(device, non_blocking=True, memory_format=layout)


def keep_memory() -> None:
    """Have glibc's malloc reuse large blocks instead of returning each to the system: 57 against 26 faces/s through
    EfficientNet-Lite0 at 224 px, batch 16, on a CPU (benchmarks/memory.py). Does nothing elsewhere."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another libc: nothing to tune
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
