"""`agecli inspect`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from agecli.cli.options import Device, Form, Output, Quiet, Verbose, Workers, form_of, listen
from agecli.cli.outputs import Force

if TYPE_CHECKING:
    from agecli.evaluation.inspect import Inspection
    from agecli.evaluation.leaf_statistics import LeafStatistics, TreeStatistics

FEW = 10  # dead or collapsed leaves that a table shows


def inspect(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A checkpoint, or a run folder.",
            metavar="[CHECKPOINT|RUN]",
            show_default="default",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Faces to route.", show_default="those that the run's fold was trained on")
    ] = None,
    fold: Annotated[
        int | None, typer.Option(min=1, help="The fold of a run.", show_default="the first finished one")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Route at most so many faces, drawn with the model's seed.")] = 5000,
    leaves: Annotated[
        bool, typer.Option("--leaves", help="In a table, show every leaf, not only dead and collapsed ones.")
    ] = False,
    device: Device = "auto",
    workers: Workers = None,
    form: Form = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Examine a trained forest: dead and collapsed leaves, how sharply faces are routed, units that trees share.

    A leaf is dead if it gets less than 0.001 of an equal share of the faces. It is collapsed if its variance is at the
    floor (drf), or if 0.99 of its probability is in one year (dldlf). CSV and JSONL have a row for each leaf.

    Example: agecli inspect runs/drf --data aligned
    """
    listen(quiet, verbose)
    from agecli.cli.progress import Bars
    from agecli.evaluation.inspect import inspect as run
    from agecli.reports.tables import destination, write_rows

    with Bars(quiet) as bars:
        found = run(model, data=data, fold=fold, limit=limit, device=device, workers=workers, progress=bars.features)
    shape = form_of(form, output)
    with destination(output, sys.stdout) as stream:
        if shape == "table":
            write_summary(found, leaves, stream)
        else:
            rows = [{name: _short(value) for name, value in vars(leaf).items()} for leaf in found.leaves]
            write_rows(rows, tuple(rows[0]), shape, stream)
    if found.broken:
        typer.echo(f"{len(found.broken)} picture(s) could not be read and were left out", err=True)
        raise typer.Exit(1)


def write_summary(found: Inspection, every: bool, stream: TextIO) -> None:
    """Write tables for people: the trees, the units they share, and the dead and collapsed leaves.

    every: show all leaves
    """
    trees, L = found.trees, found.trees[0].leaves
    stream.write(f"{found.checkpoint}: {found.model}, {len(trees)} trees of {L} leaves\n")
    if found.faces:
        stream.write(f"{found.faces} faces: {found.source}\n")
    stream.write("\n")
    _write_table([*(_tree_row(str(tree.tree), [tree]) for tree in trees), _tree_row("all", trees)], stream)
    if found.faces:
        stream.write(
            f"\nH: mean entropy of P(l|x) in nats, at most log {L} = {math.log(L):.2f}. Effective leaves: exp of the entropy of the"
            "\nmean leaf usage. Hard: split decisions s below 0.05 or above 0.95, weighted by the probability of reaching the"
            "\nsplit node.\n"
        )
    _write_units(found, stream)
    _write_leaves(found, every, stream)


def _write_units(found: Inspection, stream: TextIO) -> None:
    """The number of units of f that the trees use and share."""
    use = found.units
    used = ", ".join(f"{units} by {number}" for number, units in enumerate(use.used_by) if number)
    stream.write(f"\n{use.units} units of f, by the number of trees that use them: {use.used_by[0]} by none, {used}\n")
    if len(found.trees) > 1:
        stream.write("\nunits that two trees share; on the diagonal, units of one tree:\n")
        names = [str(tree.tree) for tree in found.trees]
        _write_table(
            [{"tree": name, **dict(zip(names, row, strict=True))} for name, row in zip(names, use.shared, strict=True)],
            stream,
        )


def _write_leaves(found: Inspection, every: bool, stream: TextIO) -> None:
    """The first dead and collapsed leaves, or all leaves."""
    shown = [leaf for leaf in found.leaves if every or leaf.dead or leaf.collapsed]
    kinds = "dead or collapsed" if found.faces else "collapsed"
    if not shown:
        stream.write(f"\nno leaf is {kinds}\n")
        return
    if not every:
        stream.write(
            "\nDead: reached by less than a thousandth of an equal share of the faces; harmless. Collapsed: at the smallest"
            "\nwidth a leaf may have; a few are normal at ages with many faces, but if most are collapsed the forest is"
            "\noverfitted.\n"
        )
    first = shown if every else shown[:FEW]
    more = f", {FEW} of {len(shown)} (--leaves shows every leaf)" if len(first) < len(shown) else ""
    stream.write("\nall leaves:\n" if every else f"\nleaves that are {kinds}{more}:\n")
    _write_table([_leaf_row(leaf) for leaf in first], stream)


def _short(value: Any) -> Any:
    """A float with six significant digits: float32 has no more, and a share can be very small."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _write_table(rows: Sequence[dict[str, Any]], stream: TextIO) -> None:
    from agecli.reports.tables import write_rows

    write_rows(rows, tuple(rows[0]), "table", stream)


def _tree_row(name: str, trees: Sequence[TreeStatistics]) -> dict[str, Any]:
    """A row for one tree or several: counts are summed, the rest is averaged."""
    return {
        "tree": name,
        "leaves": sum(tree.leaves for tree in trees),
        "dead": None if trees[0].dead is None else sum(tree.dead or 0 for tree in trees),
        "collapsed": sum(tree.collapsed for tree in trees),
        "effective leaves": _mean([tree.effective_leaves for tree in trees], "{:.1f}"),
        f"H, of {math.log(trees[0].leaves):.2f}": _mean([tree.entropy for tree in trees], "{:.2f}"),
        "largest P(l|x)": _mean([tree.largest for tree in trees], "{:.2f}"),
        "hard": _mean([tree.hard for tree in trees], "{:.0%}"),
    }


def _mean(values: Sequence[float | None], form: str) -> str | None:
    """The mean as text; None if a value is not known."""
    known = [value for value in values if value is not None]
    return form.format(fmean(known)) if len(known) == len(values) else None


def _leaf_row(leaf: LeafStatistics) -> dict[str, Any]:
    states = [name for name in ("dead", "collapsed") if getattr(leaf, name)]
    return {
        "tree": str(leaf.tree),
        "leaf": leaf.leaf,
        "faces": None if leaf.faces is None else f"{leaf.faces:.3g}",
        "share": None if leaf.share is None else f"{leaf.share:.2%}",
        "mean age": f"{leaf.mean:.1f}",
        "std": f"{leaf.std:.2f}",
        "density std": None if leaf.density_std is None else f"{leaf.density_std:.2f}",
        "": " and ".join(states) or None,
    }
