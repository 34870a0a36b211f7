"""Engines: what runs the shards of a plan. Here, one after the other in this process, together with other processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agecli.scaling.parts import Footer, Work, do_shard
from agecli.scaling.places import Place
from agecli.scaling.plan import Plan

log = logging.getLogger("agecli")
POLL = 1.0  # seconds between two looks at shards that other processes do


@dataclass(frozen=True)
class Progress:
    """What an engine has done so far, for the one who waits."""

    shards: int  # done, of those that were asked for
    inputs: int  # of these shards
    failed: int  # inputs without a result


Report = Callable[[Progress], None]


class Counter:
    """Adds up the footers of finished shards, and reports them."""

    def __init__(self, report: Report) -> None:
        self.report, self.progress = report, Progress(0, 0, 0)

    def add(self, footer: Footer) -> None:
        """Count one shard."""
        before = self.progress
        self.progress = Progress(before.shards + 1, before.inputs + footer.inputs, before.failed + footer.failed)
        self.report(self.progress)


def run_here(folder: Place, plan: Plan, numbers: Sequence[int], work: Work, report: Report) -> Progress:
    """Do shards in this process, except those that are done or that another process does; wait for the latter.

    A shard whose process is killed is taken over. Several processes on one folder share its shards.
    Raises what the work raises.
    """
    counter = Counter(report)
    waiting = _round(folder, plan, numbers, work, counter)
    if waiting:
        log.info("waiting for %d shard(s) that other processes do: %s …", len(waiting), waiting[0])
    while waiting:
        time.sleep(POLL)
        waiting = _round(folder, plan, waiting, work, counter)
    return counter.progress


def _round(folder: Place, plan: Plan, numbers: Sequence[int], work: Work, counter: Counter) -> list[int]:
    """Do shards in turn. Returns those that other processes are doing."""
    waiting = []
    for number in numbers:
        footer = do_shard(folder, plan, number, work)
        if footer is None:
            waiting.append(number)
        else:
            counter.add(footer)
    return waiting
