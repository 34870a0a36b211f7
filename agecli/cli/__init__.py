"""The command line: thin commands over the functions of the same names, and one error boundary.

Nothing here imports torch before a command needs it, so that --help and completion answer at once.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import Annotated, Any

import typer

from agecli.cli.audit import audit
from agecli.cli.evaluate import evaluate
from agecli.cli.export import export
from agecli.cli.info import info
from agecli.cli.inspect import inspect
from agecli.cli.plot import plot
from agecli.cli.predict import predict
from agecli.cli.preprocess import preprocess
from agecli.cli.split import split
from agecli.cli.study import study
from agecli.cli.toy import toy
from agecli.cli.train import train
from agecli.core.errors import AgecliError, Interrupted
from agecli.core.extras import explain
from agecli.core.version import __version__

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # the disk has no room


class Boundary(typer.core.TyperGroup):
    """Where errors end: what a user can mend is printed in two lines, anything else is our bug and keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AgecliError as error:
            _say_error(error)
            raise typer.Exit(error.exit_code) from None
        except ModuleNotFoundError as error:
            missing = explain(error, f"`agecli {ctx.invoked_subcommand}`")
            if missing is None:
                raise
            _say_error(missing)
            raise typer.Exit(missing.exit_code) from None
        except KeyboardInterrupt:
            _say_error(Interrupted("interrupted"))
            raise typer.Exit(Interrupted.exit_code) from None
        except BrokenPipeError:  # `agecli predict … | head -1`: the reader has seen enough
            _forget_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            if error.errno in FULL:
                _forget_stdout()
                _say_error(AgecliError(f"can't write: {error.strerror}", "make room, then go on with --resume"))
            elif error.filename:
                hint = "is it the path you meant, and may it be written?"
                _say_error(AgecliError(f"{error.filename}: {error.strerror}", hint))
            else:
                raise
            raise typer.Exit(AgecliError.exit_code) from None


def _forget_stdout() -> None:
    """What is left in it can't be written either: Python must not try when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_error(error: AgecliError) -> None:
    typer.echo(f"error: {error.message}", err=True)
    if error.hint:
        typer.echo(f" hint: {error.hint}", err=True)


app = typer.Typer(
    cls=Boundary,
    help="The age of a face, by Deep Differentiable Random Forests.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agecli {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The age of a face, by Deep Differentiable Random Forests."""


for command in (preprocess, train, evaluate, split, audit, predict, export, study, inspect, info, toy):
    app.command()(command)
app.add_typer(plot, name="plot")


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite stop: what is half written is cleared away
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"  # files and pipes are the same everywhere
        sys.stdout.reconfigure(encoding=encoding, errors="surrogateescape")  # names of files need not be UTF-8
    app()
