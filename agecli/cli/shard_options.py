"""The options of runs in shards, which `predict` and `preprocess` share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

SHARDS = "Shards"  # group of options


class System(str, Enum):
    """Batch systems that `--script` knows."""

    slurm = "slurm"
    pbs = "pbs"
    sge = "sge"
    kubernetes = "kubernetes"


Shards = Annotated[int | None, typer.Option(min=1, help="Number of shards.", rich_help_panel=SHARDS)]
ShardSize = Annotated[
    int | None, typer.Option(min=1, help="Inputs per shard.", show_default="10000", rich_help_panel=SHARDS)
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N|env", help="Do shard I of N only, from 0; env: as the job array says.", rich_help_panel=SHARDS
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|FILE|local:N",
        help="Do the shards on a Dask cluster: tcp://host:8786, scheduler.json, or N processes here.",
        rich_help_panel=SHARDS,
    ),
]
Script = Annotated[
    System | None,
    typer.Option(help="Write the plan, print a script for this batch system, and stop.", rich_help_panel=SHARDS),
]
