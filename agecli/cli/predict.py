"""`agecli predict`: options, progress and exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agecli.cli.options import (
    DETECTORS,
    MAX_MEMORY,
    TIMEOUT,
    Device,
    MaxMemory,
    Quiet,
    Timeout,
    Verbose,
    listen,
    output_place,
)
from agecli.cli.outputs import Force
from agecli.cli.shard_options import SHARDS, Cluster, Script, Shard, Shards, ShardSize
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


INPUTS, FACES, RECORDS, OUTPUT = "Inputs", "Faces", "Records", "Output"  # groups of options
EXAMPLES = "\n\n".join(  # typer joins lines that no empty line separates
    (
        "Examples:",
        "agecli predict photo.jpg   # every face: age, interval, distribution",
        "agecli predict holidays/ --videos -o ages.csv   # a folder, into a file",
        "agecli predict *.jpg --draw drawn/   # copies with boxes and ages",
        "agecli predict film.mp4 --every 200ms --per-person   # a video",
        "cat photo.jpg | agecli predict - --format json   # a picture on stdin",
        "find . -name '*.jpg' -print0 | agecli predict -0 -   # names on stdin",
    )
)
Photos = Annotated[
    list[str],
    typer.Argument(
        help="Files, folders, globs, archives, Parquet files, URLs, @list, or - for a picture or names on stdin."
    ),
]
Model = Annotated[
    Path | None,
    typer.Option(
        *("--model", "-m"),
        help="A checkpoint (.safetensors) or an exported model (.onnx).",
        show_default="default",
        rich_help_panel=RECORDS,
    ),
]
NoDetect = Annotated[
    bool, typer.Option("--no-detect", help="The photos are aligned faces already.", rich_help_panel=FACES)
]
Detector = Annotated[str, typer.Option(help=DETECTORS, rich_help_panel=FACES)]
Largest = Annotated[
    bool,
    typer.Option("--largest", help="Only the main face of each photo: large and central.", rich_help_panel=FACES),
]
MinFace = Annotated[
    int, typer.Option(min=0, help="Leave out faces smaller than this, in pixels.", rich_help_panel=FACES)
]
MinScore = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="Leave out faces with a lower detector score.", show_default="none", rich_help_panel=FACES
    ),
]
Fast = Annotated[bool, typer.Option("--fast", help="Look for large faces only, at 192 pixels.", rich_help_panel=FACES)]
Closer = Annotated[
    bool,
    typer.Option(
        "--closer", help="Look for small faces in every photo, at up to 16 megapixels.", rich_help_panel=FACES
    ),
]
Readout = Annotated[
    str | None,
    typer.Option(
        help="Point estimate: mean, median or mode.", show_default="as the model was trained", rich_help_panel=RECORDS
    ),
]
Null = Annotated[
    bool,
    typer.Option("--null", "-0", help="Names on stdin and in lists end with a null byte.", rich_help_panel=INPUTS),
]
AbstainAbove = Annotated[
    float | None,
    typer.Option(min=0, help="Mark faces whose interval is wider than this.", metavar="YEARS", rich_help_panel=RECORDS),
]
Over = Annotated[
    float | None,
    typer.Option(
        help="Age check: the probability of being this old, and a decision.", metavar="AGE", rich_help_panel=RECORDS
    ),
]
OverConfidence = Annotated[
    float, typer.Option(help="Decide `over` from this probability on, else `challenge`.", rich_help_panel=RECORDS)
]
Distribution = Annotated[
    bool,
    typer.Option("--distribution", help="Add the probability of each year of age.", rich_help_panel=RECORDS),
]
Draw = Annotated[
    Path | None,
    typer.Option(
        help="Write copies of the photos and videos with boxes and ages to this folder.", rich_help_panel=OUTPUT
    ),
]
Every = Annotated[str, typer.Option(help="Time between two frames of a video: 1s, 500ms, 2m.", rich_help_panel=INPUTS)]
PerPerson = Annotated[
    bool,
    typer.Option(
        "--per-person", help="One record for each person of a video, pooled over its frames.", rich_help_panel=RECORDS
    ),
]
Videos = Annotated[bool, typer.Option("--videos", help="Predict the videos in folders, too.", rich_help_panel=INPUTS)]
BatchSize = Annotated[int, typer.Option(help="Faces per batch.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that read photos and find faces.", show_default="all cores"),
]
Form = Annotated[
    Format | None,
    typer.Option(
        *("--format", "-f"),
        help="How to write records.",
        show_default="by the ending of FILE; table on a terminal, else jsonl",
        rich_help_panel=OUTPUT,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        *("--output", "-o"),
        callback=output_place,
        metavar="FILE",
        help="Write records to a file or an address, whole or not at all; - is stdout.",
        rich_help_panel=OUTPUT,
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv", help="Put ' before CSV cells that a spreadsheet would run as formulas.", rich_help_panel=OUTPUT
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue an interrupted run with the same --output.", rich_help_panel=OUTPUT),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Work in shards: a plan and a part for each shard in this folder or address. `agecli merge` joins them.",
        rich_help_panel=SHARDS,
    ),
]


def predict(
    photos: Photos,
    null: Null = False,
    every: Every = "1s",
    videos: Videos = False,
    no_detect: NoDetect = False,
    detector: Detector = "auto",
    largest: Largest = False,
    min_face: MinFace = 0,
    min_score: MinScore = None,
    fast: Fast = False,
    closer: Closer = False,
    model: Model = None,
    readout: Readout = None,
    abstain_above: AbstainAbove = None,
    over: Over = None,
    over_confidence: OverConfidence = 0.95,
    distribution: Distribution = False,
    per_person: PerPerson = False,
    form: Form = None,
    output: Output = None,
    force: Force = False,
    resume: Resume = False,
    safe_csv: SafeCsv = False,
    draw: Draw = None,
    out: Out = None,
    shards: Shards = None,
    shard_size: ShardSize = None,
    shard: Shard = None,
    cluster: Cluster = None,
    script: Script = None,
    batch_size: BatchSize = 32,
    workers: Workers = None,
    max_memory: MaxMemory = MAX_MEMORY,
    timeout: Timeout = TIMEOUT,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the age of every face in photos and videos, with a 90 % interval."""
    listen(quiet, verbose)
    from agecli.core.parallel import cores

    faces: dict[str, Any] = {
        "no_detect": no_detect,
        "detector": detector,
        "largest": largest,
        "min_face": min_face,
        "min_score": min_score,
        "looks": _looks(fast, closer),
        "readout": readout,
        "abstain_above": abstain_above,
        "over": over,
        "over_confidence": over_confidence,
        "distribution": distribution,
        "every": every,
        "per_person": per_person,
    }
    if out is not None or shards or shard_size or shard or cluster or script:
        from agecli.cli.shards import predict_shards

        given = {"--output": output, "--resume": resume, "--draw": draw, "--safe-csv": safe_csv}
        predict_shards(
            photos,
            out,
            faces,
            excluded=[name for name, value in given.items() if value],
            shards=shards,
            shard_size=shard_size,
            shard=shard,
            cluster=cluster,
            script=script.value if script else None,
            quiet=quiet,
            form=form.value if form else None,
            model=model,
            videos=videos,
            null=null,
            device=device,
            batch_size=batch_size,
            workers=workers,
            max_memory=max_memory,
            timeout=timeout,
        )
        return
    from agecli.prediction.predict import predict as run

    predictions = run(
        photos,
        model=model,
        **faces,
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


def _looks(fast: bool, closer: bool) -> str:
    """How closely large photos are searched. Raises InputError if both options are given."""
    from agecli.core.errors import InputError

    if fast and closer:
        raise InputError("--fast and --closer exclude each other", hint="choose one, or neither")
    return "fast" if fast else "closer" if closer else "auto"


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
