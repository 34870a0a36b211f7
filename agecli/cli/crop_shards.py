"""`agecli preprocess --shards | --pack`: shards of a data set, in this process, in a job array, or on a cluster."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from agecli.cli.arguments import without_options
from agecli.cli.shards import chooser, connected, run_shards, shards_of_choice
from agecli.core.errors import InputError
from agecli.core.outputs import check_output
from agecli.core.parallel import check_workers
from agecli.core.worker_process import Limits
from agecli.datasets.crop_tables import Summary
from agecli.datasets.merging import merge_faces
from agecli.datasets.sharding import CropJob, plan_preprocessing
from agecli.images.encoding import kind_of_name
from agecli.scaling.parts import clean
from agecli.scaling.scripts import script as write_script
from agecli.scaling.selection import select
from agecli.scaling.sessions import PER_THREAD
from agecli.scaling.state import status

log = logging.getLogger("agecli")


def crop_shards(
    src: Path,
    out: Path,
    crops: dict[str, Any],
    *,
    excluded: Sequence[str],
    shards: int | None,
    shard_size: int | None,
    shard: str | None,
    cluster: str | None,
    script: str | None,
    contact_sheet: Path | None,
    force: bool,
    quiet: bool,
    workers: int | None,
    max_memory: float,
    timeout: float,
    recognised: Callable[[str, int], None],
) -> Summary | None:
    """Do the shards that were chosen.

    crops: options of `plan_preprocessing`.   excluded: options that were given and have no effect on shards.
    recognised: called with the data set and its size, if the photos are listed.
    Returns None if some shards are not done: those of other tasks. Once all are done, the tables are written, unless the
    command was to do some shards only (`--shard`). Exits with 1 in that case if photos of these gave no face.
    """
    if contact_sheet:
        kind_of_name(contact_sheet)
        check_output(contact_sheet, ["picture"], force=force)
    if excluded:
        raise InputError(f"{excluded[0]} has no effect on shards", hint="leave it out")
    if shard_size is None:
        shards = shards_of_choice(out, shard, shards)
    check_workers(1 if workers is None else workers)
    limits = Limits.of(max_memory, timeout) or Limits()
    with connected(cluster if script is None else None) as client:
        plan = plan_preprocessing(
            *(src, out),
            **crops,
            shards=shards,
            size=shard_size,
            check_inputs=shard is None,
            recognised=recognised,
            check=chooser(shard, script),
        )
        if script is not None:
            arguments = without_options(sys.argv[1:], "--script")
            sys.stdout.write(write_script(script, arguments, plan.base, plan.shards, workers or 1))
            return None
        count = workers or (1 if cluster is None else PER_THREAD)
        job = CropJob(os.path.abspath(out), count, limits, plan.key)
        done = run_shards(out, plan, select(shard, plan.shards, os.environ), job, client, quiet)
    if shard is None:
        return merge_faces(out, contact_sheet=contact_sheet)
    clean(out)
    state = status(out)
    finished = state.done == plan.shards
    log.info("%d of %d shards are done%s", state.done, plan.shards, f": agecli merge {out}" if finished else "")
    if done.failed:
        typer.echo(f"{done.failed} of {done.inputs} photos gave no aligned face", err=True)
        raise typer.Exit(1)
    return None
