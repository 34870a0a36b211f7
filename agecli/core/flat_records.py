"""Flat records: a prediction record as the cells of a table, with four cells for its box."""

from __future__ import annotations

from collections.abc import Sequence

from agecli.core.streams import Row

BOX = ("box_x", "box_y", "box_w", "box_h")


def flat_row(row: Row) -> Row:
    """A row with the box in four cells."""
    return {**row, **dict(zip(BOX, row.get("box") or (), strict=False))}


def flat_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, with four for the box, if it is among them."""
    if "box" not in columns:
        return tuple(columns)
    place = columns.index("box")
    return (*columns[:place], *BOX, *columns[place + 1 :])
