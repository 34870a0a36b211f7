"""The arguments of this command, to run a part of it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence


def without_options(arguments: Sequence[str], *names: str) -> list[str]:
    """Arguments of a command without some options and their values."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in names:
            next(rest, None)
        elif not any(argument.startswith(f"{name}=") for name in names):
            kept.append(argument)
    return kept
