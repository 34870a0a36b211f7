"""The command line: a command for each function of the same name, and one error boundary.

Nothing here imports torch before a command needs it, so that --help and completion are fast. `main` imports the module of
the command that was called only.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from agecli.cli.outputs import Command
from agecli.core.display import visible
from agecli.core.errors import AgecliError, InputError, Interrupted
from agecli.core.extras import explain
from agecli.core.files import FULL
from agecli.core.signals import obey_signals
from agecli.core.version import __version__

COMMANDS = (  # modules of this package, each with a function, or a group of commands, of the same name
    "preprocess",
    "train",
    "evaluate",
    "calibrate",
    "split",
    "audit",
    "predict",
    "merge",
    "status",
    "serve",
    "export",
    "study",
    "inspect",
    "info",
    "toy",
    "plot",
)


class Boundary(typer.core.TyperGroup):
    """The error boundary: errors that a user can fix are printed as an error and a hint, without a traceback.

    Anything else is a bug and keeps its traceback.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called. Raises InputError for a photo in its place, which `predict` takes."""
        if args[0] not in COMMANDS and os.path.exists(args[0]):
            raise InputError(f"`{args[0]}` is no command", hint=f"to estimate ages: agecli predict {args[0]}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises typer.Exit with the exit code of an error."""
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
        except BrokenPipeError:  # `agecli predict … | head -1` closes the pipe
            _forget_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            if error.errno in FULL:
                _forget_stdout()
                _say_error(
                    AgecliError(
                        f"can't write: {error.strerror}",
                        "free some space, then run the command again; --resume, where there is one, continues it",
                    )
                )
            elif error.filename:
                hint = "check the path, and its permissions"
                _say_error(AgecliError(f"{error.filename}: {error.strerror}", hint))
            else:
                raise
            raise typer.Exit(AgecliError.exit_code) from None


def _forget_stdout() -> None:
    """Redirect stdout to the null device, because Python would try to flush the rest at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_error(error: AgecliError) -> None:
    """Print an error and its hint to stderr."""
    typer.echo(visible(f"error: {error.message}", lines=True), err=True)
    if error.hint:
        typer.echo(visible(f" hint: {error.hint}", lines=True), err=True)


def _version(wanted: bool) -> None:
    """Print the version and exit, if wanted."""
    if wanted:
        typer.echo(f"agecli {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The age of a face, by Deep Differentiable Random Forests."""


def build(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with some of its commands."""
    built = typer.Typer(
        cls=Boundary,
        help="The age of a face, by Deep Differentiable Random Forests.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(options)
    for name in names:
        module = import_module(f"agecli.cli.{name}")
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            built.add_typer(command, name=name)
        else:
            built.command(cls=Command, epilog=getattr(module, "EXAMPLES", None))(command)
    return built


def __getattr__(name: str) -> typer.Typer:
    """`agecli.cli.app`, the whole command line, is built when it is asked for."""
    if name != "app":
        raise AttributeError(name)
    globals()["app"] = built = build()
    return built


def main() -> None:
    """Set up signals and stdout, and run the command in sys.argv."""
    try:
        _run()
    except KeyboardInterrupt:  # before the error boundary is reached
        _say_error(Interrupted("interrupted"))
        sys.exit(Interrupted.exit_code)


def _run() -> None:
    """Run the command in sys.argv."""
    obey_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = (
            sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
        )  # files and pipes do not depend on the locale
        sys.stdout.reconfigure(encoding=encoding, errors="surrogateescape")  # file names may not be valid UTF-8
    called = sys.argv[1:2]
    build(called if set(called) & set(COMMANDS) else COMMANDS)()
