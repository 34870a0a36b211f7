"""`agecli toy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def toy(
    folder: Annotated[Path, typer.Argument(help="Folder to create.")],
    count: Annotated[int, typer.Option(min=10, help="Number of faces.")] = 600,
    seed: Annotated[int, typer.Option(help="Seed of the random faces.")] = 0,
) -> None:
    """Draw a small data set of cartoon faces with ages, to try the other commands on.

    Example: agecli toy faces && agecli train --data faces --freeze --out runs/toy
    """
    from agecli.datasets.toy import draw_faces

    draw_faces(folder, count, seed)
    typer.echo(f"drew {count} faces in {folder}; next: agecli train --data {folder} --freeze --out runs/toy", err=True)
