"""The check of output files, before a command does anything: one place for all commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agecli.cli.options import form_of
from agecli.core.errors import InputError
from agecli.core.outputs import check_output

OUTPUTS = {  # parameters that name a file to write, and the kinds of files that it may replace
    "output": ("table", "picture"),
    "out": ("table", "model"),  # a folder, in some commands
    "report": ("page",),
    "contact_sheet": ("picture",),
}
Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that agecli did not write; never a photo, video or archive.")
]


REMOTE = ("predict", "merge")  # commands that write to addresses, too


class Command(typer.core.TyperCommand):
    """A command that checks the files it will write."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises InputError if it would replace an input or, without --force, a file of the user."""
        params = ctx.params
        for name, kinds in OUTPUTS.items():
            if ctx.info_name in REMOTE and is_address(params.get(name)):
                continue  # checked where the address is known
            _check_local(params.get(name))
            for path in _files(params.get(name)):
                check_output(path, kinds, _inputs(params), bool(params.get("force")))
                _check_not_of_run(path)
        if ctx.info_name not in ("predict", "merge") and params.get("output") and not params.get("form", True):
            form_of(None, Path(params["output"]))  # an unknown ending; these two have more formats, and check them
        _check_page(params.get("report"))
        return super().invoke(ctx)


def _check_page(report: str | Path | None) -> None:
    """Raise InputError for a report that is named like another kind of file than a page."""
    path = Path(report or "")
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(f"{path}: a report is an HTML page", hint=f"name it {path.with_suffix('.html')}")


def _check_not_of_run(path: Path) -> None:
    """Raise InputError for a plan or a part of a sharded run, even with --force."""
    if path.exists():
        from agecli.scaling.run_files import check_not_of_run  # takes a while to import

        check_not_of_run(path)


def _check_local(value: str | Path | None) -> None:
    """Raise InputError for an address, of which a path would make folders such as `s3:`."""
    if is_address(value):
        raise InputError(
            f"{value} is an address, and outputs are files here", hint="write to a folder, and copy it then"
        )


def is_address(value: str | Path | None) -> bool:
    """Whether a value is an address, or a path that was made of one."""
    return value is not None and re.match(r"[a-z][a-z0-9+.-]+:/", str(value)) is not None


def _files(value: str | Path | None) -> list[Path]:
    """The files that an option stands for: itself, or in a folder those that `evaluate` writes there."""
    if value is None:
        return []
    path = Path(value)
    return [path] if not path.is_dir() else [path / name for name in ("predictions.csv", "metrics.csv")]


def _inputs(params: Mapping[str, Any]) -> Iterator[str]:
    """The values of all other parameters that can be names of files, `@list` included."""
    for name, value in params.items():
        if name not in OUTPUTS:
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(item, (str, Path)):
                    yield str(item)
                    yield str(item).removeprefix("@")
