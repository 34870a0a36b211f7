"""`agecli info`."""

from __future__ import annotations

from typing import Annotated

import typer


def info(
    settings: Annotated[
        bool, typer.Option("--settings", help="Print every setting with its default, as TOML.")
    ] = False,
    preset: Annotated[str, typer.Option(help="Whose defaults: modern or paper.")] = "modern",
) -> None:
    """Versions, devices and where weights are looked for: what to paste into a bug report."""
    if settings:
        from agecli.core import config

        typer.echo(config.to_toml(config.preset(preset), comments=True).strip())
        return
    from agecli.reports.environment import lines

    for name, value in lines():
        typer.echo(f"{name:<24} {value}")
