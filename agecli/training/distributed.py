"""Distributed training: the ranks that torchrun started, or this process alone.

All ranks must call the collective functions (`barrier`, `all_reduce`, `total`, `any_rank`, `weighted_mean`, `union`,
`copy_buffers`, and `backward` of a network of `average_gradients`) in the same order, whatever they could read; a rank
that leaves one out makes the others wait until TIMEOUT. In a run of one process they do nothing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

TIMEOUT = timedelta(hours=12)  # the other ranks wait at a barrier while rank 0 tests and writes


def join(device: torch.device) -> None:
    """Join the process group if torchrun started this process; a run of one process needs none.

    CPU tensors (counts, flags) go over gloo also where gradients go over NCCL, so that no rank waits for its GPU.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
        if device.type == "cuda":
            torch.cuda.set_device(device)


def leave() -> None:
    """Leave the process group, if there is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def ranks() -> int:
    """The number of processes that train together; 1 without torchrun."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0. Rank 0 writes the files."""
    return dist.get_rank() if ranks() > 1 else 0


def barrier() -> None:
    """Return when all ranks are here."""
    if ranks() > 1:
        dist.barrier()


def all_reduce(values: Tensor) -> Tensor:
    """The sum of a tensor over all ranks, the same on each of them; the tensor itself in a run of one process.

    values: of the same shape and dtype on all ranks, on the CPU or on the rank's GPU; it is not changed.
    """
    if ranks() > 1:
        values = values.clone()
        dist.all_reduce(values)
    return values


def total(count: int) -> int:
    """The sum of a count over all ranks."""
    return int(all_reduce(torch.tensor(count)).item()) if ranks() > 1 else count


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on any rank, so that all of them stop or save at the same iteration."""
    return total(int(flag)) > 0


def weighted_mean(values: list[float], weight: float) -> list[float]:
    """The mean of each value over all ranks, weighted by the number of faces behind it.

    values: as many on each rank; weight: the faces of this rank. A rank with weight 0 does not count, whatever its
    values. At least one rank must have a weight above 0.
    """
    if ranks() == 1:
        return values
    sums = torch.tensor([value * weight if weight else 0.0 for value in (*values, 1.0)], dtype=torch.float64)
    *sums_of_values, weights = all_reduce(sums).tolist()
    return [value / weights for value in sums_of_values]


def union(values: dict[str, str]) -> dict[str, str]:
    """The entries of all ranks together, the same on each of them."""
    if ranks() == 1:
        return values
    parts: list[dict[str, str]] = [{}] * ranks()
    dist.all_gather_object(parts, values)
    return {name: value for part in parts for name, value in part.items()}


def average_gradients(network: nn.Module, device: torch.device) -> nn.Module:
    """The network, wrapped so that `backward` averages its gradients over all ranks; as it is if there is only one.

    Buffers are shared by `copy_buffers` after the step instead of before it, so that ranks are equal between steps.
    """
    if ranks() == 1:
        return network
    devices = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(network, device_ids=devices, broadcast_buffers=False)


@torch.no_grad()
def copy_buffers(network: nn.Module) -> None:
    """Give every rank the buffers of rank 0, such as batch-norm statistics: one broadcast for each dtype."""
    if ranks() == 1:
        return
    by_dtype: dict[torch.dtype, list[Tensor]] = defaultdict(list)
    for buffer in network.buffers():
        by_dtype[buffer.dtype].append(buffer)
    for buffers in by_dtype.values():
        flat = torch.cat([buffer.flatten() for buffer in buffers])
        dist.broadcast(flat, 0)
        for buffer, values in zip(buffers, flat.split([buffer.numel() for buffer in buffers]), strict=True):
            buffer.copy_(values.view_as(buffer))
