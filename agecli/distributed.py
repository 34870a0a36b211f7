"""Several processes that train one model: started by torchrun, or just this one."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


def join(device: torch.device) -> None:
    """Join the other ranks if torchrun started this process."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(hours=12))  # ranks wait while the first one evaluates
        if device.type == "cuda":
            torch.cuda.set_device(device)


def leave() -> None:
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if ranks() > 1 else 0


def wait() -> None:
    if ranks() > 1:
        dist.barrier()


def add_up(sums: Tensor) -> Tensor:
    """The sum over all ranks."""
    if ranks() > 1:
        sums = sums.clone()
        dist.all_reduce(sums)
    return sums


def collect(part: T) -> list[T]:
    """What every rank has, in the order of the ranks."""
    if ranks() == 1:
        return [part]
    parts: list[Any] = [None] * ranks()
    dist.all_gather_object(parts, part)
    return parts


def share_gradients(network: nn.Module, device: torch.device) -> nn.Module:
    """The network, with gradients averaged over all ranks if there are several."""
    if ranks() == 1:
        return network
    return nn.parallel.DistributedDataParallel(network, device_ids=[device.index] if device.type == "cuda" else None)


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set on any rank: they must stop at the same iteration."""
    return bool(add_up(torch.tensor(float(flag), device=device)).item()) if ranks() > 1 else flag
