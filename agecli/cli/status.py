"""`agecli status`: how far a sharded run is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from agecli.cli.options import Form, Output, Quiet, Verbose, form_of, listen
from agecli.cli.outputs import Force
from agecli.core.display import visible

SHOWN = 5  # failed shards whose reason is shown


def status(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder or address of --out.")],
    form: Form = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show the shards of a run that are done, running and missing, the failed inputs, and the time left.

    The array expression of the missing shards, and the reasons of failed ones, go to stderr.

    Example: agecli status ages/
    """
    listen(quiet, verbose)
    from agecli.reports.tables import destination, write_rows
    from agecli.scaling.selection import array_of_missing
    from agecli.scaling.state import status as read

    state = read(folder)
    with destination(output, sys.stdout) as stream:
        write_rows(state.rows(), ("what", "count"), form_of(form, output), stream)
    if state.missing:
        typer.echo(f"missing: {array_of_missing(state.missing)}", err=True)
    for number, reason in state.failed[:SHOWN]:
        typer.echo(visible(f"shard {number} failed: {reason}"), err=True)
