"""`agecli plot leaves | history | cs | distribution`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import Device, Quiet, Verbose, listen
from agecli.core.errors import InputError

KINDS = ("png", "svg", "pdf")
plot = typer.Typer(help="Figures to print: a forest's leaves, a training, cumulative scores, one face.")

Figure = Annotated[Path, typer.Option("--output", "-o", help="The file to write: .png, .svg or .pdf.")]


def _kind(path: Path) -> str:
    """The kind of file that is asked for, before any work is done."""
    kind = path.suffix[1:].lower()
    if kind not in KINDS:
        what = f"`{path.suffix}`" if kind else "a file without a suffix"
        raise InputError(f"{path}: a figure can't be written as {what}", hint=f"use .{', .'.join(KINDS)}")
    return kind


@plot.command()
def leaves(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="Runs or checkpoints, a panel for each; `default` names the bundled model.",
            metavar="RUN|CHECKPOINT...",
        ),
    ],
    tree: Annotated[
        int | None, typer.Option(min=1, help="Only the leaves of this tree, from 1.", show_default="all trees")
    ] = None,
    fold: Annotated[
        int | None, typer.Option(min=1, help="The fold of a run.", show_default="the first that is finished")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Faces for the histogram.", show_default="those that a run was trained on")
    ] = None,
    output: Figure = Path("leaves.png"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw what the leaves of a forest have learned, beneath a histogram of the ages they learned from."""
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_ages, read_leaves
    from agecli.reports.figures.leaves import leaves as draw
    from agecli.reports.figures.style import write_figure
    from agecli.training.run_folder import find_source

    sources = [find_source(model, fold) for model in models]
    panels = [read_leaves(source, tree) for source in sources]
    known = read_ages(sources, panels[0].grid, data)
    write_figure(output, draw.render(kind, panels, known, f"faces in {data}" if data else "training faces"))


@plot.command()
def history(
    run: Annotated[Path, typer.Argument(help="A run folder, also of a run that is not finished.", metavar="RUN")],
    fold: Annotated[int | None, typer.Option(min=1, help="Only this fold.", show_default="all folds")] = None,
    output: Figure = Path("history.png"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw how a training went: losses, entropy, temperatures and errors by iteration."""
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_histories
    from agecli.reports.figures.history import history as draw
    from agecli.reports.figures.style import write_figure

    write_figure(output, draw.render(kind, read_histories(run, fold)))


@plot.command()
def cs(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of `evaluate --out`.", metavar="RUN...")],
    output: Figure = Path("cs.png"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw cumulative scores: the share of test faces with an error of at most so many years."""
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_runs
    from agecli.reports.figures.accuracy import cs_curve
    from agecli.reports.figures.style import write_figure

    write_figure(output, cs_curve.render(kind, read_runs(runs)))


@plot.command()
def distribution(
    photo: Annotated[Path, typer.Argument(help="A photo; of several faces, the largest is taken.", metavar="PHOTO")],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Checkpoint made by `agecli train`.", show_default="default")
    ] = None,
    no_detect: Annotated[bool, typer.Option("--no-detect", help="The photo is an aligned face already.")] = False,
    output: Figure = Path("distribution.png"),
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw the distribution of a face's age, its interval, and the leaves that it is made of."""
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import explain
    from agecli.reports.figures.face import distribution as draw
    from agecli.reports.figures.style import write_figure

    write_figure(output, draw.render(kind, explain(photo, model, no_detect=no_detect, device=device)))
