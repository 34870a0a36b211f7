"""Where tensors live: the device that was asked for, and memory that is not given back between batches."""

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
    """`auto` takes the best there is. One that was named and is not there is an error, never a silent fallback."""
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
    """Where torch's random numbers go on from, dropout's say. `torch.manual_seed` would also put a note for each device
    that is not there into a list that grows for ever, with a stack trace: a third of a small training step."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


@contextmanager
def one_thread(wanted: bool) -> Iterator[None]:
    """For matrices so small that waking a second thread takes longer than the work: f and the forest on features."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_device(inputs: Tensor, device: torch.device) -> Tensor:
    """Pixels with their channels last, as convolutions like them best: 810 against 1276 ms for a training step of
    EfficientNet-Lite0 at 224 px, batch 16, on a CPU (benchmarks/memory.py). Features as they are."""
    layout = torch.channels_last if inputs.ndim == 4 else torch.preserve_format
    return inputs.to(device, non_blocking=True, memory_format=layout)


def keep_memory() -> None:
    """Have glibc reuse large blocks. By default it returns each to the system and takes it back, page by page: on a
    CPU that was 57 against 26 faces/s through EfficientNet-Lite0 at 224 px, batch 16 (benchmarks/memory.py)."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another libc: nothing to tune
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
