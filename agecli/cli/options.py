"""Options that several commands share, and the set-up of their messages on stderr."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from agecli.core.display import visible
from agecli.core.errors import InputError


class Format(str, Enum):
    """How a result is printed."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"


class PaperFormat(str, Enum):
    """How a result is printed, if papers may show it."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"
    latex = "latex"


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Debug messages on stderr, too.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that read pictures.", show_default="by device")]
MaxMemory = Annotated[
    float, typer.Option(metavar="GB", help="Most memory of a process; a photo that needs more is `crashed`.")
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="Most time for a photo; one that takes longer is `crashed`.")
]
MAX_MEMORY, TIMEOUT = 1.0, 60.0  # the defaults
Form = Annotated[
    Format | None, typer.Option("--format", "-f", help="How to print.", show_default="table on a terminal, else jsonl")
]

PaperForm = Annotated[
    PaperFormat | None,
    typer.Option("--format", "-f", help="How to print.", show_default="table on a terminal, else jsonl"),
]


def output_file(path: Path | None) -> Path | None:
    """The file of --output; None, which is stdout, for `-`."""
    return None if path == Path("-") else path


def output_place(name: str | None) -> str | None:
    """The file or address of --output; None, which is stdout, for `-`."""
    return None if name == "-" else name


Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", callback=output_file, help="Write the result to a file, whole or not at all; - is stdout."
    ),
]
SETUPS = "The protocol: random, I, II, III, lopo, cacd-train, cacd-val, subject, column, fae-b or minors."
DETECTORS = "auto, yunet-dlib, yunet, hog, cnn or haar."
DATASETS = "auto, morph, fgnet, cacd, utkface, afad, aaf, agedb, appa-real, chalearn, imdb-wiki, fae-b, csv or folder."
List = Annotated[
    Path | None, typer.Option("--list", help="Only these photos: a file of names, or a CSV with a column path.")
]
Exclude = Annotated[Path | None, typer.Option(help="All but these photos, as `audit` writes them.")]
Align = Annotated[bool, typer.Option("--align", help="The pictures are photos: find and align their faces first.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, section.key=value. `agecli info --settings` lists them."),
]


def form_of(form: Format | PaperFormat | None, output: Path | None) -> str:
    """The format that is asked for, else that of the file's ending, else table on a terminal and jsonl in a pipe.

    Raises InputError for an unknown ending.
    """
    if form:
        return str(form.value)
    if output and output.suffix:
        known = [f".{kind.value}" for kind in Format if kind is not Format.table]
        if output.suffix.lower() not in known:
            raise InputError(
                f"{output}: unknown ending `{output.suffix}`", hint=f"use {', '.join(known)}, or choose a --format"
            )
        return output.suffix[1:].lower()
    return "table" if output is None and sys.stdout.isatty() else "jsonl"


class Stderr(logging.Handler):
    """Messages to `sys.stderr` as it is at that time: while a progress bar is shown, rich replaces it to print above."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        print(visible(self.format(record), lines=True), file=sys.stderr, flush=True)


def listen(quiet: bool, verbose: bool) -> None:
    """Send messages to stderr, with the time in a pipe: warnings and errors only if `quiet`, debug ones if `verbose`."""
    log, handler = logging.getLogger("agecli"), Stderr()
    form = "%(message)s" if sys.stderr.isatty() else "%(asctime)s %(message)s"
    handler.setFormatter(logging.Formatter(form, datefmt="%H:%M:%S"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)


def assignment(text: str) -> tuple[str, str]:
    """The name and the value of `--set section.key=value`. Raises InputError if there is no `=`."""
    name, sign, value = text.partition("=")
    if not sign:
        raise InputError(f"--set {text} has no value", hint="write --set section.key=value")
    return name.strip(), value.strip()
