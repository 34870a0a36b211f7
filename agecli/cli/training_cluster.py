"""`train --cluster` and `study --cluster`: the folds of a run, or the cells of a study, as commands on the workers of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agecli.cli.arguments import without_options
from agecli.cli.progress import Bars
from agecli.scaling.clusters import connect
from agecli.scaling.commands import run_on_workers, shares
from agecli.training.run_folder import open_run
from agecli.training.train import PREPARE, train


def train_on_cluster(address: str, data: Path | None, keywords: Mapping[str, Any], bars: Bars) -> None:
    """Begin the run here, so that what is wrong is said at once, and train its folds on the workers of a cluster.

    address: as in `connect`;   keywords: of `agecli.train`.   Raises as `connect`, `train` and `run_on_workers` do.
    """
    with connect(address) as client:
        run = open_run(train(data, **keywords, shard=PREPARE).run)
        _run_shares(client, shares(client, run.folds), "shares of the folds", bars)


def study_on_cluster(address: str, prepare: Callable[[], int], bars: Bars) -> None:
    """The same for the cells of a study, each of which is a command.

    prepare: begins the study here, and returns the number of its cells
    """
    with connect(address) as client:
        _run_shares(client, prepare(), "cells", bars)


def _run_shares(client: Any, count: int, what: str, bars: Bars) -> None:
    """Run this command on the workers, once for each of `count` shares of its work."""
    command = without_options(sys.argv[1:], "--cluster", "--output", "-o")
    commands = [[*command, "--quiet", "--shard", f"{share}/{count}"] for share in range(count)]
    run_on_workers(client, commands, os.getcwd(), lambda done: bars.show(what, done, count))
