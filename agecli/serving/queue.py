"""Limits on what is in progress: photos in the queue, and bytes of uploads in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from agecli.serving.refusals import queue_full

POLL_EVERY = 0.02  # seconds


class Queue:
    """Counts the photos that wait or are processed; at most `size`.

    with queue.place(): ...
    """

    def __init__(self, size: int) -> None:
        self.size, self.count = size, 0
        self.waiters: deque[asyncio.Future[None]] = deque()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place for the length of a `with` block. Raises Refusal if there is none."""
        if self.count >= self.size:
            raise queue_full(f"the queue is full: {self.size} photos are waiting")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
            while self.waiters:
                waiter = self.waiters.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    break

    async def until_free(self) -> None:
        """Wait until there is a place."""
        while self.count >= self.size:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter


class Memory:
    """Counts the bytes of uploads in memory; at most `size`."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0

    async def until_free(self, count: int) -> None:
        """Wait until there is room for so many bytes."""
        while self.used + count > self.size:
            await asyncio.sleep(POLL_EVERY)

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Memory of one request, which is free again after the `with` block."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            hold.release()


class Hold:
    """The part of a Memory that one request, or one photo, uses."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.used = memory, 0

    def add(self, count: int) -> None:
        """Count more bytes. Raises Refusal if all uploads together have too many."""
        if self.memory.used + count > self.memory.size:
            raise queue_full(f"uploads in progress take {self.memory.size // 10**6} MB of memory, which is the limit")
        self.memory.used += count
        self.used += count

    def release(self) -> None:
        """Free the bytes."""
        self.memory.used -= self.used
        self.used = 0
