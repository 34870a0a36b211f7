"""Options that several commands share, and how each of them talks."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    table = "table"
    csv = "csv"
    jsonl = "jsonl"


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="More on stderr.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that read pictures.", show_default="by device")]
Form = Annotated[
    Format | None, typer.Option("--format", "-f", help="How to print.", show_default="table on a terminal, else jsonl")
]


def _file(path: Path | None) -> Path | None:
    return None if path == Path("-") else path


Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", callback=_file, help="Write the result to a file, whole or not at all; - is stdout."
    ),
]
SETUPS = "The protocol: random, I, II, III, lopo, cacd-train, cacd-val, subject or column."
DATASETS = "auto, morph, fgnet, cacd, utkface, afad, aaf, agedb, appa-real, chalearn, imdb-wiki, csv or folder."
List = Annotated[
    Path | None, typer.Option("--list", help="Only these photos: a file of names, or a CSV with a column path.")
]
Exclude = Annotated[Path | None, typer.Option(help="All but these photos, as `audit` writes them.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, section.key=value. `agecli info --settings` lists them."),
]

# What a run is trained with, in `train` and in `study`
Data = Annotated[Path | None, typer.Option(help="Folder with a manifest.csv or a labels.csv.", show_default="aligned")]
Setup = Annotated[str | None, typer.Option(help=SETUPS, show_default="random")]
Preset = Annotated[str | None, typer.Option(help="modern, or paper for the paper's settings.", show_default="modern")]
ConfigFile = Annotated[Path | None, typer.Option(help="A TOML file of settings over the preset.")]
Backbone = Annotated[
    str | None, typer.Option(help="vgg16, resnet18, … or timm:NAME.", show_default="timm:tf_efficientnet_lite0")
]
Weights = Annotated[
    str | None,
    typer.Option(help="imagenet, none, a file, or default: the bundled model's.", show_default="imagenet"),
]
Freeze = Annotated[
    bool | None,
    typer.Option("--freeze", help="Keep the backbone as it is: its features are computed once, and cached."),
]
Iterations = Annotated[int | None, typer.Option(help="Mini-batches to learn from.", show_default="3000")]
BatchSize = Annotated[int | None, typer.Option(help="Faces in a mini-batch.", show_default="32")]
Rate = Annotated[float | None, typer.Option(help="Learning rate.", show_default="0.001")]
Select = Annotated[str | None, typer.Option(help="The checkpoint to test: val (the best) or last.", show_default="val")]
Folds = Annotated[str | None, typer.Option(help="Only these, as in 1-3,5.", show_default="all")]
Seed = Annotated[int | None, typer.Option(help="Of all random numbers.", show_default="0")]


def form_of(form: Format | None, output: Path | None) -> str:
    if form:
        return form.value
    if output and output.suffix in (".csv", ".jsonl"):
        return output.suffix[1:]
    return "table" if output is None and sys.stdout.isatty() else "jsonl"


class Stderr(logging.Handler):
    """Whatever stderr is when something is said: while a bar is drawn, rich takes its place and prints above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def listen(quiet: bool, verbose: bool) -> None:
    """Talk goes to stderr; in a pipe it says when."""
    log, handler = logging.getLogger("agecli"), Stderr()
    form = "%(message)s" if sys.stderr.isatty() else "%(asctime)s %(message)s"
    handler.setFormatter(logging.Formatter(form, datefmt="%H:%M:%S"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)


def assignment(text: str) -> tuple[str, str]:
    from agecli.core.errors import InputError

    name, sign, value = text.partition("=")
    if not sign:
        raise InputError(f"--set {text} says no value", hint="write --set section.key=value")
    return name.strip(), value.strip()
