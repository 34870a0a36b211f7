"""`agecli plot leaves | history | cs | distribution | label | forest | faces`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import Device, Quiet, Verbose, listen
from agecli.cli.outputs import Command, Force
from agecli.core.errors import InputError

KINDS = ("png", "svg", "pdf")
plot = typer.Typer(
    help="Draw figures for print: leaves and trees of a forest, history of a training, cumulative scores, faces."
)

Figure = Annotated[Path, typer.Option("--output", "-o", help="The file to write: .png, .svg or .pdf.")]


def _kind(path: Path) -> str:
    """The kind of file by its suffix. Raises InputError if it is none of KINDS."""
    kind = path.suffix[1:].lower()
    if kind not in KINDS:
        what = f"`{path.suffix}`" if kind else "a file without a suffix"
        raise InputError(f"{path}: a figure can't be written as {what}", hint=f"use .{', .'.join(KINDS)}")
    return kind


@plot.command(cls=Command)
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
        int | None, typer.Option(min=1, help="The fold of a run.", show_default="the first finished one")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Faces of the histogram.", show_default="those that a run was trained on")
    ] = None,
    output: Figure = Path("leaves.png"),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw the leaf distributions of a forest below a histogram of the training ages.

    Example: agecli plot leaves runs/drf -o leaves.pdf
    """
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


@plot.command(cls=Command)
def history(
    run: Annotated[Path, typer.Argument(help="A run folder; the run may still be training.", metavar="RUN")],
    fold: Annotated[int | None, typer.Option(min=1, help="Only this fold.", show_default="all folds")] = None,
    output: Figure = Path("history.png"),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw the history of a training: loss, entropy, temperatures and errors by iteration.

    Example: agecli plot history runs/drf
    """
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_histories
    from agecli.reports.figures.history import history as draw
    from agecli.reports.figures.style import write_figure

    write_figure(output, draw.render(kind, read_histories(run, fold)))


@plot.command(cls=Command)
def cs(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of `evaluate --out`.", metavar="RUN...")],
    output: Figure = Path("cs.png"),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw cumulative scores: the share of test faces with an absolute error of at most so many years.

    Example: agecli plot cs runs/drf runs/dldlf -o cs.svg
    """
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_runs
    from agecli.reports.figures.accuracy import cs_curve
    from agecli.reports.figures.style import write_figure

    write_figure(output, cs_curve.render(kind, read_runs(runs)))


@plot.command(cls=Command)
def distribution(
    photo: Annotated[Path, typer.Argument(help="A photo; of several faces, the largest is taken.", metavar="PHOTO")],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Checkpoint made by `agecli train`.", show_default="default")
    ] = None,
    no_detect: Annotated[bool, typer.Option("--no-detect", help="The photo is an aligned face already.")] = False,
    output: Figure = Path("distribution.png"),
    force: Force = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw the predicted age distribution of a face, its interval, and the leaves that it is a mixture of.

    Example: agecli plot distribution photo.jpg
    """
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import explain
    from agecli.reports.figures.face import distribution as draw
    from agecli.reports.figures.style import write_figure

    write_figure(output, draw.render(kind, explain(photo, model, no_detect=no_detect, device=device)))


@plot.command(cls=Command)
def label(
    age: Annotated[float, typer.Option(min=0, max=120, help="True age of the face, in years.")] = 20.0,
    alpha: Annotated[float, typer.Option(min=0, max=100, help="Std of the distribution, in years.")] = 2.0,
    output: Figure = Path("label.png"),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw the label distribution of a face, from which a DLDLF learns.

    Example: agecli plot label --age 20 --alpha 2
    """
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.core.ages import AgeGrid
    from agecli.reports.figures.sketches import label_distribution
    from agecli.reports.figures.style import write_figure

    write_figure(output, label_distribution.render(kind, age, alpha, AgeGrid()))


@plot.command(cls=Command)
def forest(
    model: Annotated[Path, typer.Argument(help="A run or a checkpoint; `default` names the bundled model.")],
    trees: Annotated[int, typer.Option(min=1, max=4, help="Trees to draw.")] = 2,
    fold: Annotated[
        int | None, typer.Option(min=1, help="The fold of a run.", show_default="the first finished one")
    ] = None,
    output: Figure = Path("forest.png"),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw trees of a trained forest: units of f, split nodes and leaf distributions.

    Example: agecli plot forest runs/drf -o forest.pdf
    """
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_trees
    from agecli.reports.figures.sketches import forest_sketch
    from agecli.reports.figures.style import write_figure
    from agecli.training.run_folder import find_source

    write_figure(output, forest_sketch.render(kind, *read_trees(find_source(model, fold), trees)))


@plot.command(cls=Command)
def faces(
    run: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")],
    count: Annotated[int, typer.Option(min=1, max=60, help="Faces to draw.")] = 12,
    output: Figure = Path("faces.png"),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw test faces of a run, from the youngest to the oldest, with true and predicted ages.

    The figure shows these people: share it only with those who may see them.   Example: agecli plot faces runs/drf
    """
    kind = _kind(output)
    listen(quiet, verbose)
    from agecli.reports.figure_data import read_examples
    from agecli.reports.figures.sketches import faces as draw
    from agecli.reports.figures.style import write_figure

    write_figure(output, draw.render(kind, read_examples(run, count)))
