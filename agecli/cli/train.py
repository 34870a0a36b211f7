"""`agecli train`."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import (
    Backbone,
    BatchSize,
    ConfigFile,
    Data,
    Device,
    Exclude,
    Folds,
    Form,
    Freeze,
    Iterations,
    List,
    Output,
    Preset,
    Quiet,
    Rate,
    Seed,
    Select,
    Settings,
    Setup,
    Verbose,
    Weights,
    Workers,
    assignment,
    form_of,
    listen,
)


def train(
    data: Data = None,
    model: Annotated[
        str | None, typer.Option(help="drf, dldlf, dndf, drf-nrf or regression.", show_default="drf")
    ] = None,
    setup: Setup = None,
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/<model>-<setup>")] = None,
    preset: Preset = None,
    config: ConfigFile = None,
    backbone: Backbone = None,
    weights: Weights = None,
    init: Annotated[
        str | None, typer.Option(help="Go on from a trained model: default, or a checkpoint.", show_default="none")
    ] = None,
    freeze: Freeze = None,
    iterations: Iterations = None,
    batch_size: BatchSize = None,
    lr: Rate = None,
    trees: Annotated[int | None, typer.Option(help="K.", show_default="5")] = None,
    depth: Annotated[int | None, typer.Option(help="Levels of nodes, the leaves included.", show_default="6")] = None,
    units: Annotated[int | None, typer.Option(help="M, the outputs of f.", show_default="128")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Std of a label distribution, in years (dldlf).", show_default="2")
    ] = None,
    leaf_init: Annotated[str | None, typer.Option(help="random or kmeans (drf).", show_default="random")] = None,
    split_temperature: Annotated[float | None, typer.Option(help="T_0.", show_default="1")] = None,
    leaf_temperature: Annotated[float | None, typer.Option(help="tau_0 (drf).", show_default="0.5")] = None,
    ensemble: Annotated[
        str | None, typer.Option(help="joint, or alternating: one tree learns at a time.", show_default="joint")
    ] = None,
    select: Select = None,
    folds: Folds = None,
    seed: Seed = None,
    list_: List = None,
    exclude: Exclude = None,
    set_: Settings = None,
    device: Device = "auto",
    workers: Workers = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out as if it had never stopped.")
    ] = False,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a model on faces with ages, for every fold of a setup.

    Writes the run folder (checkpoints, history.csv, predictions.csv, metrics.csv, report.csv) and prints the report.
    """
    from agecli.core.config import OPTIONS

    chosen = {name: value for name, value in locals().items() if name in OPTIONS}
    settings = dict(assignment(text) for text in set_ or [])
    first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, one talks
    quiet = quiet or not first
    listen(quiet, verbose)
    from agecli.cli.monitor import TrainingBars
    from agecli.reports.tables import destination, write_rows
    from agecli.training.run_folder import REPORT_COLUMNS
    from agecli.training.train import train as run

    with TrainingBars(quiet) as bars:
        report = run(
            data,
            out=out,
            preset=preset,
            config=config,
            settings=settings,
            folds=folds,
            list=list_,
            exclude=exclude,
            device=device,
            workers=workers,
            resume=resume,
            listener=bars,
            **chosen,
        )
    logging.getLogger("agecli").info("wrote %s", report.run)
    if first:
        with destination(output, sys.stdout) as stream:
            shape = form_of(form, output)
            single = shape == "table" and sum(isinstance(row["fold"], int) for row in report.rows) == 1
            write_rows(report.rows[:1] if single else report.rows, REPORT_COLUMNS, shape, stream)
    if report.broken:
        typer.echo(f"{len(report.broken)} picture(s) could not be read and were left out", err=True)
        raise typer.Exit(1)
