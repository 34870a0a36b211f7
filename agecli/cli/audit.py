"""`agecli audit`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import (
    DATASETS,
    MAX_MEMORY,
    TIMEOUT,
    Form,
    MaxMemory,
    Output,
    Quiet,
    Timeout,
    Verbose,
    form_of,
    listen,
)
from agecli.cli.outputs import Force


def audit(
    data: Annotated[Path, typer.Argument(help="A data set, or a folder with a manifest.csv or a labels.csv.")],
    dataset: Annotated[str, typer.Option(help=DATASETS)] = "auto",
    out: Annotated[Path, typer.Option(help="CSV file for suspicious rows; `train --exclude` takes it.")] = Path(
        "suspicious.csv"
    ),
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    max_memory: MaxMemory = MAX_MEMORY,
    timeout: Timeout = TIMEOUT,
    form: Form = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check labels and photos: impossible ages, subjects that contradict themselves, copies with different ages.

    Exits with 1 if something is suspicious; the file lists it.

    Example: agecli audit aligned --out suspicious.csv
    """
    listen(quiet, verbose)
    from agecli.cli.progress import Bars
    from agecli.datasets.auditing import COLUMNS
    from agecli.datasets.auditing import audit as run
    from agecli.reports.tables import destination, write_rows

    with Bars(quiet) as bars:
        report = run(
            data,
            dataset=dataset,
            out=out,
            force=force,
            workers=workers,
            max_memory=max_memory,
            timeout=timeout,
            progress=bars.show,
        )
    shape = form_of(form, output)
    with destination(output, sys.stdout) as stream:
        write_rows(report.rows(), COLUMNS if shape == "table" else COLUMNS[:-1], shape, stream)  # no bars for programs
    logging.getLogger("agecli").info("wrote %s", out)
    if report.suspicious:
        raise typer.Exit(1)
