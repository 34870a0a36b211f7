"""`agecli study`."""

from __future__ import annotations

import logging
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


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="ablation: what each part of the method gives; trees, depth, alpha: their number, depth and label spread; "
            "phi: the random assignment of units; entropy: of the routing while it is learned; "
            "benchmark: DRF and DLDLF beside the paper's table of the setup."
        ),
    ],
    data: Data = None,
    setup: Setup = None,
    out: Annotated[Path | None, typer.Option(help="The study's folder.", show_default="studies/<name>")] = None,
    preset: Preset = None,
    config: ConfigFile = None,
    backbone: Backbone = None,
    weights: Weights = None,
    freeze: Freeze = None,
    iterations: Iterations = None,
    batch_size: BatchSize = None,
    lr: Rate = None,
    select: Select = None,
    folds: Folds = None,
    seed: Seed = None,
    list_: List = None,
    exclude: Exclude = None,
    set_: Settings = None,
    device: Device = "auto",
    workers: Workers = None,
    jobs: Annotated[int, typer.Option(help="Cells that are trained side by side.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the checkpoints of all folds, not only of the first.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the study in --out: finished cells are not repeated.")
    ] = False,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run one of the paper's experiments: its runs, its table beside the paper's numbers, its figure.

    Writes study.csv, the figure (PNG and SVG) and a run folder for each cell, and prints the table.
    """
    from agecli.core.config import OPTIONS

    chosen = {name: value for name, value in locals().items() if name in OPTIONS}
    settings = dict(assignment(text) for text in set_ or [])
    listen(quiet, verbose)
    from agecli.cli.monitor import StudyBars
    from agecli.reports.figures.style import write_figure
    from agecli.reports.tables import destination, with_ranges, write_rows
    from agecli.studies.figures import draw
    from agecli.studies.study import study as run
    from agecli.studies.tables import COLUMNS, ENTROPY_COLUMNS, SHOWN

    with StudyBars(quiet) as bars:
        outcome = run(
            name,
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
            jobs=jobs,
            keep=keep,
            resume=resume,
            listener=bars,
            told=bars.told,
            folds_told=bars.folds_told,
            **chosen,
        )
    for kind in ("png", "svg"):
        write_figure(outcome.folder / f"{name}.{kind}", draw(outcome.study, outcome.rows, outcome.setup, kind))
    logging.getLogger("agecli").info("wrote %s", outcome.folder / "study.csv")
    shape = form_of(form, output)
    columns = ENTROPY_COLUMNS if name == "entropy" else SHOWN if shape == "table" else COLUMNS
    rows = outcome.rows
    if shape == "table":
        reference = {outcome.study.reference: " (reference)"}
        rows = [
            {
                **with_ranges(row),
                "label": row["label"] + reference.get(row["cell"], ""),
                "against": row.get("difference"),
            }
            for row in rows
        ]
    with destination(output, sys.stdout) as stream:
        write_rows(rows, columns, shape, stream)
    if outcome.failed:
        typer.echo(f"{len(outcome.failed)} cell(s) failed: {', '.join(outcome.failed)}", err=True)
        raise typer.Exit(1)
