"""`agecli audit`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import DATASETS, Form, Output, Quiet, Verbose, form_of, listen


def audit(
    data: Annotated[Path, typer.Argument(help="A data set, or a folder with a manifest.csv or a labels.csv.")],
    dataset: Annotated[str, typer.Option(help=DATASETS)] = "auto",
    out: Annotated[Path, typer.Option(help="The file for suspicious rows; `train --exclude` takes it.")] = Path(
        "suspicious.csv"
    ),
    workers: Annotated[int, typer.Option(min=1, help="Processes that look at photos.")] = 1,
    form: Form = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Look for labels that can't be true: odd ages, subjects at odds with themselves, one photo with two ages.

    Exits with 1 if there are any.
    """
    listen(quiet, verbose)
    from agecli.cli.progress import Bars
    from agecli.datasets.auditing import COLUMNS
    from agecli.datasets.auditing import audit as run
    from agecli.reports.tables import destination, write_rows

    with Bars(quiet) as bars:
        found = run(
            data,
            dataset=dataset,
            out=out,
            workers=workers,
            progress=bars.show,
        )
    shape = form_of(form, output)
    with destination(output, sys.stdout) as stream:
        write_rows(found.rows(), COLUMNS if shape == "table" else COLUMNS[:-1], shape, stream)  # bars are for people
    logging.getLogger("agecli").info("wrote %s", out)
    if found.suspicious:
        raise typer.Exit(1)
