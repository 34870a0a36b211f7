"""`agecli predict`: options, progress and exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from agecli.cli.options import (
    DETECTORS,
    MAX_MEMORY,
    TIMEOUT,
    Device,
    MaxMemory,
    Output,
    Quiet,
    Timeout,
    Verbose,
    listen,
)
from agecli.cli.outputs import Force
from agecli.core.display import visible

if TYPE_CHECKING:
    from agecli.cli.progress import Bars


class Format(str, Enum):
    """How records are written."""

    table = "table"
    csv = "csv"
    tsv = "tsv"
    json = "json"
    jsonl = "jsonl"
    parquet = "parquet"


FEW = 100  # photos before progress is shown: rich takes time to load


Photos = Annotated[list[str], typer.Argument(help="Files, folders, globs, @list, or - for names on stdin.")]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model", "-m", help="A checkpoint (.safetensors) or an exported model (.onnx).", show_default="default"
    ),
]
NoDetect = Annotated[bool, typer.Option("--no-detect", help="The photos are aligned faces already.")]
Detector = Annotated[str, typer.Option(help=DETECTORS)]
Largest = Annotated[bool, typer.Option("--largest", help="Only the main face of each photo: large and central.")]
MinFace = Annotated[int, typer.Option(min=0, help="Leave out faces smaller than this, in pixels.")]
MinScore = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Leave out faces with a lower detector score.", show_default="none"),
]
Readout = Annotated[
    str | None, typer.Option(help="Point estimate: mean, median or mode.", show_default="as the model was trained")
]
Null = Annotated[bool, typer.Option("--null", "-0", help="Names on stdin and in lists end with a null byte.")]
AbstainAbove = Annotated[
    float | None, typer.Option(min=0, help="Mark faces whose interval is wider than this.", metavar="YEARS")
]
Over = Annotated[
    float | None, typer.Option(help="Age check: the probability of being this old, and a decision.", metavar="AGE")
]
OverConfidence = Annotated[float, typer.Option(help="Decide `over` from this probability on, else `challenge`.")]
Distribution = Annotated[bool, typer.Option("--distribution", help="Add the probability of each year of age.")]
Draw = Annotated[Path | None, typer.Option(help="Write copies of the photos with boxes and ages to this folder.")]
Every = Annotated[str, typer.Option(help="Time between two frames of a video: 1s, 500ms, 2m.")]
PerPerson = Annotated[
    bool, typer.Option("--per-person", help="One record for each person of a video, pooled over its frames.")
]
Videos = Annotated[bool, typer.Option("--videos", help="Predict the videos in folders, too.")]
BatchSize = Annotated[int, typer.Option(help="Faces per batch.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that read photos and find faces.", show_default="all cores")
]
Form = Annotated[
    Format | None,
    typer.Option(
        "--format", "-f", help="How to write records.", show_default="by FILE's ending; table on a terminal, else jsonl"
    ),
]
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put ' before CSV cells that a spreadsheet would run as formulas.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run with the same --output.")]


def predict(
    photos: Photos,
    model: Model = None,
    no_detect: NoDetect = False,
    detector: Detector = "auto",
    largest: Largest = False,
    min_face: MinFace = 0,
    min_score: MinScore = None,
    readout: Readout = None,
    null: Null = False,
    abstain_above: AbstainAbove = None,
    over: Over = None,
    over_confidence: OverConfidence = 0.95,
    distribution: Distribution = False,
    draw: Draw = None,
    every: Every = "1s",
    per_person: PerPerson = False,
    videos: Videos = False,
    batch_size: BatchSize = 32,
    workers: Workers = None,
    max_memory: MaxMemory = MAX_MEMORY,
    timeout: Timeout = TIMEOUT,
    resume: Resume = False,
    device: Device = "auto",
    form: Form = None,
    output: Output = None,
    force: Force = False,
    safe_csv: SafeCsv = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the age of every face in photos and videos, with a 90 % interval."""
    listen(quiet, verbose)
    from agecli.core.parallel import cores
    from agecli.prediction.predict import predict as run

    predictions = run(
        photos,
        model=model,
        no_detect=no_detect,
        detector=detector,
        largest=largest,
        min_face=min_face,
        min_score=min_score,
        readout=readout,
        abstain_above=abstain_above,
        over=over,
        over_confidence=over_confidence,
        distribution=distribution,
        every=every,
        per_person=per_person,
        videos=videos,
        draw=draw,
        device=device,
        batch_size=batch_size,
        workers=workers or cores(),
        max_memory=max_memory,
        timeout=timeout,
        null=null,
    )
    if form is None and output is None and sys.stdout.isatty():
        form = Format.table
    hidden = quiet or (output is None and sys.stdout.isatty())  # records on the terminal are progress enough
    with LateBars(hidden, predictions.remaining) as progress:
        summary = predictions.save(
            output or sys.stdout,
            file_format=form.value if form else None,
            resume=resume,
            progress=progress,
            safe_csv=safe_csv,
            force=force,
        )
    if summary.failed:
        typer.echo(visible(summary.message), err=True)
    if summary.not_drawn:
        typer.echo(f"{summary.not_drawn} photo(s) could not be drawn", err=True)
    if not summary.ok:
        raise typer.Exit(1)


class LateBars:
    """Progress on stderr that starts after FEW photos.   remaining: counts them; called once, when the bar is shown."""

    def __init__(self, hidden: bool, remaining: Callable[[], int | None]) -> None:
        self.hidden, self.remaining = hidden, remaining
        self.total: int | None = None
        self.bars: Bars | None = None
        self.stack = ExitStack()

    def __enter__(self) -> LateBars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def __call__(self, done: int) -> None:
        """Show the number of photos and frames so far."""
        if self.hidden or done <= FEW:
            return
        if self.bars is None:
            from agecli.cli.progress import Bars

            self.total = self.remaining()
            self.bars = self.stack.enter_context(Bars(quiet=False))
        self.bars.show("photos", done, self.total)
