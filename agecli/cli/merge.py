"""`agecli merge`: the parts of a sharded run as one file."""

from __future__ import annotations

from typing import Annotated

import typer

from agecli.cli.options import Quiet, Verbose, listen, output_place
from agecli.cli.outputs import Force
from agecli.cli.predict import Format


def merge(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder or address of --out.")],
    output: Annotated[
        str | None,
        typer.Option(
            *("--output", "-o"),
            callback=output_place,
            metavar="FILE",
            help="Write all records to a file or an address, whole or not at all; - is stdout.",
        ),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            *("--format", "-f"), help="How to write records.", show_default="by the ending of FILE, else jsonl"
        ),
    ] = None,
    force: Force = False,
    safe_csv: Annotated[
        bool, typer.Option("--safe-csv", help="Put ' before CSV cells that a spreadsheet would run as formulas.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Join the parts of a sharded run, in the order of its inputs. Refuses while parts are missing, and says which.

    In a folder of `preprocess`, it writes manifest.csv and failures.csv, and the index of packed faces.

    Example: agecli merge ages/ -o ages.parquet
    """
    listen(quiet, verbose)
    from agecli.prediction.merging import merge as run

    run(folder, output, file_format=form.value if form else None, safe_csv=safe_csv, force=force)
