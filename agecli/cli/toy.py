"""`agecli toy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def toy(
    folder: Annotated[Path, typer.Argument(help="The data folder to make.")],
    count: Annotated[int, typer.Option(min=10, help="How many faces.")] = 600,
    seed: Annotated[int, typer.Option(help="Of the random faces.")] = 0,
) -> None:
    """Draw a small data set of cartoon faces with ages, to try the other commands on."""
    from agecli.datasets.toy import draw_faces

    draw_faces(folder, count, seed)
    typer.echo(f"drew {count} faces in {folder}; next: agecli train --data {folder} --freeze --out runs/toy", err=True)
