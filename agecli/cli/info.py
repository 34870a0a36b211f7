"""`agecli info`."""

from __future__ import annotations

from typing import Annotated

import typer


def info(
    settings: Annotated[
        bool, typer.Option("--settings", help="Print every setting with its default, as TOML.")
    ] = False,
    preset: Annotated[str, typer.Option(help="The preset of --settings: modern or paper.")] = "modern",
) -> None:
    """Print versions, devices and the places of weights and caches, for bug reports.

    Example: agecli info --settings --preset paper > config.toml
    """
    if settings:
        from agecli.core import config

        typer.echo(config.to_toml(config.preset(preset), comments=True).strip())
        return
    from agecli.reports.environment import lines

    for name, value in lines():
        typer.echo(f"{name:<24} {value}")
