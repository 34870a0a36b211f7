"""Distributed training: the ranks that torchrun started, or this process alone.

All ranks must call the collective functions (`barrier`, `all_reduce`, `total`, `any_rank`, `weighted_mean`, `union`,
`copy_buffers`, and `backward` of a network of `average_gradients`) in the same order, whatever they could read; a rank
that leaves one out makes the others wait until TIMEOUT. In a run of one process they do nothing.
"""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

from agecli.core.errors import InputError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

JOIN = timedelta(minutes=15)  # for all ranks to start
POLL = 0.05  # seconds
TIMEOUT = timedelta(hours=12)  # the other ranks wait at a barrier while rank 0 tests and writes


def join(device: torch.device) -> None:
    """Join the process group if torchrun started this process; a run of one process needs none.

    CPU tensors (counts, flags) go over gloo also where gradients go over NCCL, so that no rank waits for its GPU.
    Raises InputError if the ranks do not find each other within JOIN.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        from torch._C._distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        store, number, count = next(iter(rendezvous("env://", timeout=JOIN)))
        meeting = PrefixStore(meet(store, number, count), store)
        dist.init_process_group(backend, store=meeting, rank=number, world_size=count, timeout=TIMEOUT)
        if device.type == "cuda":
            torch.cuda.set_device(device)


def meet(store: Store, number: int, count: int, patience: timedelta = JOIN) -> str:
    """A name that exactly the processes of this start know, whatever earlier ones left in the store.

    torchrun keeps one store for all restarts (`--max-restarts`). In it, a new process group would find the addresses of
    processes that are gone, and wait for them; the number of the restart does not help, because each node has its own.
    Here each process says hello with a name of its own, and rank 0 answers it with the name of the meeting, until all
    ranks have confirmed it.   number: the rank, of `count`.   Raises InputError after `patience`.
    """
    mine, end = uuid.uuid4().hex, time.monotonic() + patience.total_seconds()
    if number:
        store.set(f"hello/{number}", mine)
        _await(store, f"meeting/{mine}", end)
        name = store.get(f"meeting/{mine}").decode()
        store.set(f"here/{name}/{number}", "1")
        _await(store, f"all/{name}", end)
        return name
    away = set(range(1, count))
    while away:
        for other in sorted(away):
            if store.check([f"hello/{other}"]):
                store.set(f"meeting/{store.get(f'hello/{other}').decode()}", mine)
            if store.check([f"here/{mine}/{other}"]):
                away.discard(other)
        _pause(end)
    store.set(f"all/{mine}", "1")
    return mine


def _await(store: Store, key: str, end: float) -> None:
    while not store.check([key]):
        _pause(end)


def _pause(end: float) -> None:
    """Wait for a moment. Raises InputError after `end`."""
    if time.monotonic() > end:
        raise InputError("the ranks did not find each other", hint="were all of them started? Is their network open?")
    time.sleep(POLL)


def was_restarted() -> bool:
    """Whether torchrun has started the ranks again, after one was lost. Collective."""
    return ranks() > 1 and any_rank(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0)


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether an error of a collective function says that another rank is gone."""
    network = isinstance(error, (dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError))
    return ranks() > 1 and (network or "gloo" in str(error) or "NCCL" in str(error))


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch 2.13, whose new name older ones do not know
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
