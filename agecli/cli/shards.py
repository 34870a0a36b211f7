"""`agecli predict --out DIR`: shards of a prediction, in this process, in a job array, or as a script for one."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from agecli.cli.arguments import without_options
from agecli.cli.progress import Bars
from agecli.core.errors import InputError, Interrupted
from agecli.core.extras import require
from agecli.core.parallel import cores
from agecli.core.worker_process import Limits
from agecli.prediction.options import Options
from agecli.prediction.sharding import job_for, plan_prediction
from agecli.prediction.writing import ENDINGS
from agecli.scaling.engines import Progress, Report, run_here
from agecli.scaling.parts import clean
from agecli.scaling.places import Place, place
from agecli.scaling.plan import Plan
from agecli.scaling.scripts import script as write_script
from agecli.scaling.selection import select, shards_in_choice
from agecli.scaling.sessions import PER_THREAD, Job, close_sessions, do_one
from agecli.scaling.state import status

log = logging.getLogger("agecli")
PARTS = ("jsonl", "parquet")  # formats of parts


def predict_shards(
    photos: Sequence[str],
    out: str | None,
    faces: Mapping[str, Any],
    *,
    excluded: Sequence[str],
    shards: int | None,
    shard_size: int | None,
    shard: str | None,
    cluster: str | None,
    script: str | None,
    quiet: bool,
    form: str | None,
    model: Path | None,
    videos: bool,
    null: bool,
    device: str,
    batch_size: int,
    workers: int | None,
    max_memory: float,
    timeout: float,
) -> None:
    """Do the shards that were chosen. Exits with 1 if some of their inputs gave no age."""
    if out is None:
        raise InputError("shards need a folder", hint="name one with --out DIR")
    if form not in (None, *PARTS):
        raise InputError(f"parts can't be in {form}", hint="choose --format jsonl or parquet; `agecli merge` has more")
    if form == "parquet":
        require("pyarrow", needed_by="--format parquet")
    if excluded:
        raise InputError(
            f"{excluded[0]} has no effect on shards", hint="`agecli merge DIR -o FILE` writes all records to one file"
        )
    check_folder(out)
    folder = place(out)
    if shard_size is None:
        shards = shards_of_choice(folder, shard, shards)
    local = cluster is None
    count = workers or (cores() if local else PER_THREAD)
    limits = Limits.of(max_memory, timeout)
    job = job_for(folder, model, device, batch_size, count, limits, threads=0 if local else 1)
    with connected(cluster if script is None else None) as client:
        plan = plan_prediction(
            *(photos, folder, Options(**faces), job),
            videos=videos,
            null=null,
            shards=shards,
            size=shard_size,
            check_inputs=shard is None,
            file_format=form,
            check=chooser(shard, script),
        )
        if script is not None:
            arguments = without_options(sys.argv[1:], "--script")
            sys.stdout.write(write_script(script, arguments, plan.base, plan.shards, count))
            return
        numbers = select(shard, plan.shards, os.environ)
        done = run_shards(folder, plan, numbers, replace(job, plan=plan.key), client, quiet)
    report(folder, plan, done)


def check_folder(out: str) -> None:
    """Raises InputError if `--out`, a folder, is named like a file of records, or is a file."""
    path = Path(out)
    if path.is_file() or (path.suffix[1:].lower() in ENDINGS and not path.is_dir()):
        raise InputError(
            f"--out names a folder, for the parts of a run in shards, and {out} is {'' if path.is_file() else 'named like '}a file",
            hint=f"write one file with -o {out}, or name another folder",
        )


def connected(cluster: str | None) -> AbstractContextManager[Any]:
    """A Dask client, which is there before anything is written; a context of None without a cluster. Raises as `connect`."""
    if cluster is None:
        return nullcontext()
    from agecli.scaling.clusters import connect

    return connect(cluster)


def chooser(shard: str | None, script: str | None) -> Callable[[int], object]:
    """The check of `--shard` for a number of shards, before a plan is written. A script has a choice of its own."""
    return lambda shards: select(shard, shards, os.environ) if script is None else None


def shards_of_choice(out: Place, shard: str | None, shards: int | None) -> int | None:
    """The number of shards of a plan in the folder `out`: the one given, else for a new plan that of `--shard I/N`.

    Raises InputError if there is no shard I of N.
    """
    if (named := shards_in_choice(shard)) is None:
        return shards
    select(shard, named, {})  # an error before anything is written
    return named if shards is None and not (out / "plan.json").exists() else shards


def run_shards(out: Place, plan: Plan, numbers: Sequence[int], job: Job, client: Any, quiet: bool) -> Progress:
    """Do shards in this process, or on a cluster, with a progress bar. Raises Interrupted for SIGINT and SIGTERM.

    client: of `connected`; None for this process.
    """
    try:
        with Bars(quiet) as bars:
            return _run(out, plan, numbers, job, client, lambda done: bars.show("shards", done.shards, len(numbers)))
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; the shards so far are in {out}", hint="continue with the same command"
        ) from None


def _run(out: Place, plan: Plan, numbers: Sequence[int], job: Job, client: Any, show: Report) -> Progress:
    """Do the shards in this process, or on a cluster."""
    if client is None:
        with job.session() as session:
            return run_here(out, plan, numbers, session.work, show)
    from agecli.scaling.clusters import run_on_cluster

    done = run_on_cluster(client, out, plan, numbers, partial(do_one, job), show)
    client.run(close_sessions, on_error="ignore")
    return done


def report(out: Place, plan: Plan, done: Progress) -> None:
    """Say what was done, and what to do next. Raises typer.Exit with 1 if some inputs gave no age."""
    clean(out)
    state = status(out)
    if state.done == plan.shards:
        done_shards = "the shard is" if plan.shards == 1 else f"all {plan.shards} shards are"
        log.info("%s done: agecli merge %s -o ages.jsonl", done_shards, out)
    else:
        log.info("%d of %d shards are done; agecli status %s shows the others", state.done, plan.shards, out)
    if done.failed:
        typer.echo(f"{done.failed} of {done.inputs} inputs gave no age; their records say why", err=True)
        raise typer.Exit(1)
