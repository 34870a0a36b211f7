"""The options of a training run, which `train` and `study` share: declared once, settings made from `Config`.

Typer reads a command's signature, so that `with_run_options` builds it: the command's own parameters, an option for each
setting that it names, and the fields of `RunOptions`. To add an option for a setting, add it to `core.config.OPTIONS`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from agecli.cli.options import (
    Align,
    Device,
    Exclude,
    List,
    Output,
    PaperForm,
    Quiet,
    Settings,
    Verbose,
    Workers,
    assignment,
)
from agecli.cli.outputs import Force
from agecli.core.config import OPTIONS, PRESETS, Config, describe, settings

SETTINGS_PANEL = "Settings"


@dataclass(frozen=True)
class RunOptions:
    """The values of the options that `train` and `study` share."""

    data: Annotated[
        Path | None, typer.Option(help="Folder with a manifest.csv or a labels.csv.", show_default="aligned")
    ] = None
    out: Annotated[Path | None, typer.Option(help="Folder to write.", show_default="by its name")] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="modern, or paper for the paper's settings.", show_default="modern", metavar="|".join(PRESETS)
        ),
    ] = None
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings, over the preset.")] = None
    set_: Settings = None
    folds: Annotated[str | None, typer.Option(help="Only these folds, as in 1-3,5.", show_default="all")] = None
    list_: List = None
    exclude: Exclude = None
    align: Align = False
    device: Device = "auto"
    workers: Workers = None
    resume: Annotated[bool, typer.Option("--resume", help="Continue in --out where it was stopped.")] = False
    form: PaperForm = None
    output: Output = None
    force: Force = False
    quiet: Quiet = False
    verbose: Verbose = False

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments that `agecli.train` and `agecli.study` have in common."""
        names = ("out", "preset", "config", "folds", "exclude", "align", "device", "workers", "resume")
        return {
            **{name: getattr(self, name) for name in names},
            "only": self.list_,
            "settings": dict(assignment(text) for text in self.set_ or []),
        }


@dataclass(frozen=True)
class Choices:
    """The names that a setting takes, for shell completion."""

    names: tuple[str, ...]

    def complete(self, incomplete: str) -> list[str]:
        """The names that begin with what was typed."""
        return [name for name in self.names if name.startswith(incomplete)]


def setting_option(name: str) -> inspect.Parameter:
    """A command's parameter for a setting: type, help text, choices and the default that is shown are those of `Config`.

    name: the short one, a key of `core.config.OPTIONS`. The parameter's own default is None: not given.
    """
    setting = describe(OPTIONS[name])
    default = dict(settings(Config()))[OPTIONS[name]]
    option = typer.Option(
        *(["--freeze"] if name == "freeze" else []),  # there is no --no-freeze
        help=f"{setting.about[0].upper()}{setting.about[1:]}.",
        show_default=f"{default:g}" if isinstance(default, float) else "none" if default == "" else str(default),
        metavar="|".join(setting.choices) or None,
        autocompletion=Choices(setting.choices).complete if setting.choices else None,
        rich_help_panel=SETTINGS_PANEL,
    )
    kind: Any = setting.kind
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def with_run_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `RunOptions`, and one for each setting with these short names.

    The command's parameter `run` gets the RunOptions, and `options` the values of the settings, by short name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """The command, wrapped so that Typer sees all its options in the signature."""
        hints = get_type_hints(RunOptions, include_extras=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        shared = [
            inspect.Parameter(field.name, keyword, default=field.default, annotation=hints[field.name])
            for field in fields(RunOptions)
        ]
        own = _own_parameters(command)

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            run = RunOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
            command(run=run, options={name: values.pop(name) for name in names}, **values)

        parameters = [*own, *map(setting_option, names), *shared]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapper

    return decorate


def _own_parameters(command: Callable[..., None]) -> Sequence[inspect.Parameter]:
    """The parameters of a command but `run` and `options`, with their annotations evaluated."""
    hints = get_type_hints(command, include_extras=True)
    return [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in ("run", "options")
    ]
