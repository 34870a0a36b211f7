"""`agecli train`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, Any

import typer

from agecli.cli.options import form_of, listen
from agecli.cli.run_options import RunOptions, with_run_options
from agecli.core.config import OPTIONS
from agecli.core.errors import InputError

Seed = Annotated[
    str | None,
    typer.Option(help="Seed of all random numbers; several, as in 0,1,2, give mean and std.", show_default="0"),
]


@with_run_options(*(name for name in OPTIONS if name != "seed"))
def train(
    run: RunOptions,
    options: dict[str, Any],
    seed: Seed = None,
    log: Annotated[
        str | None, typer.Option(help="Log curves for an experiment tracker.", metavar="tensorboard|wandb")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N|env", help="Train every N-th fold from fold I + 1 on; env: as the job array says."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|FILE|local:N", help="Train the folds on a Dask cluster: tcp://host:8786, scheduler.json, …"
        ),
    ] = None,
) -> None:
    """Train a model on faces with ages, for every fold of a setup.

    Writes the run folder, runs/<model>-<setup> unless --out is given (checkpoints, history.csv, predictions.csv,
    metrics.csv, report.csv), and prints the report. Several seeds have a run folder each below --out, and seeds.csv.

    Example: agecli train --data aligned --model drf --setup II --freeze
    """
    main_rank = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, one prints
    quiet = run.quiet or not main_rank
    listen(quiet, run.verbose)
    keywords = run.keywords()
    from agecli.cli.monitor import TrainingBars
    from agecli.cli.training_cluster import train_on_cluster
    from agecli.core.seeds import parse_seeds
    from agecli.reports.columns import TERMINAL_RUN
    from agecli.reports.latex import run_table
    from agecli.reports.tables import destination, spread_row, write_rows
    from agecli.training.run_folder import REPORT_COLUMNS
    from agecli.training.seeds import SEED_COLUMNS, train_seeds
    from agecli.training.trackers import Listeners, make_tracker
    from agecli.training.train import train as train_model

    seeds = parse_seeds(seed)
    if (shard or cluster) and (len(seeds) > 1 or run.folds or (shard and cluster)):
        raise InputError("--shard, --cluster, --folds and several seeds exclude each other", hint="choose one of them")
    if shard:
        keywords["shard"] = shard
    with TrainingBars(quiet) as bars:
        listener = Listeners(bars, make_tracker(log)) if log and main_rank else bars
        if cluster:
            train_on_cluster(cluster, run.data, {**keywords, **options, "seed": (*seeds, None)[0]}, bars)
            keywords["resume"] = True  # all folds are finished: what is left is the report
        if len(seeds) > 1:
            report = train_seeds(seeds, run.data, **keywords, **options, listener=listener)
        else:
            report = train_model(run.data, **keywords, **options, seed=(*seeds, None)[0], listener=listener)
    logging.getLogger("agecli").info("wrote %s", report.run)
    if main_rank:
        with destination(run.output, sys.stdout) as stream:
            form = form_of(run.form, run.output)
            single = form == "table" and sum(isinstance(row.get("fold"), int) for row in report.rows) == 1
            columns = SEED_COLUMNS if len(seeds) > 1 else REPORT_COLUMNS
            rows = report.rows[:1] if single else report.rows
            if form == "table":
                columns = (columns[0], *TERMINAL_RUN)
                rows = [spread_row(row) if row.get(columns[0]) == "std" else row for row in rows]
            if form == "latex":
                stream.write(run_table(report.rows, columns[0]))
            else:
                write_rows(rows, columns, form, stream)
    if report.broken and main_rank:  # torchrun would stop rank 0 if another one failed before it
        typer.echo(f"{len(report.broken)} picture(s) could not be read and were left out", err=True)
        raise typer.Exit(1)
