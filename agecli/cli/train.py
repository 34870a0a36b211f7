"""`agecli train`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import typer

from agecli.cli.options import form_of, listen
from agecli.cli.run_options import RunOptions, with_run_options
from agecli.core.config import OPTIONS


@with_run_options(*OPTIONS)
def train(run: RunOptions, options: dict[str, Any]) -> None:
    """Train a model on faces with ages, for every fold of a setup.

    Writes the run folder, runs/<model>-<setup> unless --out is given (checkpoints, history.csv, predictions.csv,
    metrics.csv, report.csv), and prints the report.

    Example: agecli train --data aligned --model drf --setup II --freeze
    """
    main_rank = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, one prints
    quiet = run.quiet or not main_rank
    listen(quiet, run.verbose)
    keywords = run.keywords()
    from agecli.cli.monitor import TrainingBars
    from agecli.reports.tables import destination, write_rows
    from agecli.training.run_folder import REPORT_COLUMNS
    from agecli.training.train import train as train_model

    with TrainingBars(quiet) as bars:
        report = train_model(run.data, **keywords, **options, listener=bars)
    logging.getLogger("agecli").info("wrote %s", report.run)
    if main_rank:
        with destination(run.output, sys.stdout) as stream:
            form = form_of(run.form, run.output)
            single = form == "table" and sum(isinstance(row["fold"], int) for row in report.rows) == 1
            write_rows(report.rows[:1] if single else report.rows, REPORT_COLUMNS, form, stream)
    if report.broken and main_rank:  # torchrun would stop rank 0 if another one failed before it
        typer.echo(f"{len(report.broken)} picture(s) could not be read and were left out", err=True)
        raise typer.Exit(1)
