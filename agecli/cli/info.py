"""`agecli info`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agecli.core.errors import InputError


def info(
    run: Annotated[Path | None, typer.Argument(help="A run folder, for --cite.", show_default=False)] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Print every setting with its default, as TOML.")
    ] = False,
    preset: Annotated[str, typer.Option(help="The preset of --settings: modern or paper.")] = "modern",
    cite: Annotated[
        bool,
        typer.Option(
            "--cite",
            help="Print BibTeX: agecli, the paper, and the data sets and backbone of RUN or the default model.",
        ),
    ] = False,
) -> None:
    """Print versions, devices and the places of weights and caches, for bug reports.

    Example: agecli info --settings --preset paper > config.toml
    """
    if run is not None and not cite:
        raise InputError(f"`agecli info {run}` has nothing to print", hint="add --cite for what to cite in a paper")
    if cite:
        from agecli.reports.citations import cite as entries

        typer.echo("\n\n".join(entries(run)))
        return
    if settings:
        from agecli.core import config

        typer.echo(config.to_toml(config.preset(preset), comments=True).strip())
        return
    from agecli.reports.environment import lines

    for name, value in lines():
        typer.echo(f"{name:<24} {value}")
