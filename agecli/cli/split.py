"""`agecli split`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import (
    SETUPS,
    Exclude,
    Form,
    List,
    Output,
    Quiet,
    Settings,
    Verbose,
    assignment,
    form_of,
    listen,
)
from agecli.cli.outputs import Force

SHOWN_FOLDS = 5  # at most, in a table


def split(
    data: Annotated[Path, typer.Argument(help="A data set, or a folder with a manifest.csv or a labels.csv.")],
    setup: Annotated[str, typer.Option(help=SETUPS)] = "random",
    out: Annotated[Path, typer.Option(help="CSV file to write: fold, part and path of every face.")] = Path(
        "splits.csv"
    ),
    seed: Annotated[int, typer.Option(help="Seed of random splits.")] = 0,
    preset: Annotated[str, typer.Option(help="modern, or paper, which has no validation part.")] = "modern",
    list_: List = None,
    exclude: Exclude = None,
    set_: Settings = None,
    form: Form = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write and describe the folds of a protocol, without training: sizes, ages, groups, and leakage of subjects.

    Example: agecli split aligned --setup lopo
    """
    listen(quiet, verbose)
    from agecli.datasets.splitting import columns, for_people
    from agecli.datasets.splitting import split as run
    from agecli.reports.tables import destination, write_rows

    settings = dict(assignment(text) for text in set_ or [])
    rows = run(
        data,
        setup=setup,
        out=out,
        seed=seed,
        preset=preset,
        only=list_,
        exclude=exclude,
        settings=settings,
        force=force,
    )
    shape = form_of(form, output)
    log = logging.getLogger("agecli")
    folds = max(row["fold"] for row in rows)
    names = columns(rows)
    if shape == "table":
        if folds > SHOWN_FOLDS:
            log.info("%d folds; the first %d:", folds, SHOWN_FOLDS)
        rows, names = for_people([row for row in rows if row["fold"] <= SHOWN_FOLDS])
    with destination(output, sys.stdout) as stream:
        write_rows(rows, names, shape, stream)
    log.info("wrote %s", out)
