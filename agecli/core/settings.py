"""What a setting is: a dataclass field with a type, a default, a meaning and bounds; and how its value is read."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agecli.core.errors import InputError
from agecli.core.reading import shown

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


LONGEST = 4096  # characters of a text


@dataclass(frozen=True)
class Bounds:
    """The numbers that a setting takes: above `above`, at least `least`, below `below`, at most `most`."""

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    def allow(self, value: float) -> bool:
        """Whether a value lies within all bounds."""
        return (
            (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.below is None or value < self.below)
            and (self.most is None or value <= self.most)
        )

    def __str__(self) -> str:
        words = {"above": "above", "least": "at least", "below": "below", "most": "at most"}
        return " and ".join(f"{words[name]} {value}" for name, value in vars(self).items() if value is not None)


def setting(
    default: Any,
    about: str,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    unit: str = "",
) -> Any:
    """A dataclass field with its default, its meaning in a few words, and the bounds and unit of a number.

    about: starts in lower case, without a full stop; help texts and TOML comments are made from it.

    >>> trees: int = setting(5, "trees, K", above=0)
    """
    return field(default=default, metadata={"about": about, "bounds": Bounds(above, least, below, most), "unit": unit})


@dataclass(frozen=True)
class Description:
    """What is known of a setting: its type, meaning, bounds and unit, and the names it takes, if it is a choice."""

    kind: type
    about: str
    bounds: Bounds
    choices: tuple[str, ...]
    unit: str


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, Description, Any]]:
    """The dotted name, the description and the value of every setting in a tree of dataclasses, in order.

    config: a dataclass whose fields are made by `setting`, or dataclasses of such fields.
    """
    kind: type = type(config)
    descriptions = _descriptions(kind)
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            yield from walk(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, descriptions[item.name], value


@cache
def _descriptions(kind: type) -> dict[str, Description]:
    """The settings of a dataclass, by field; cached, since evaluating type hints is slow and every command needs it."""
    types = get_type_hints(kind)
    return {
        item.name: Description(
            type(item.default),
            item.metadata["about"],
            item.metadata["bounds"],
            get_args(types[item.name]),
            item.metadata["unit"],
        )
        for item in dataclasses.fields(kind)
        if "about" in item.metadata
    }


def parse(name: str, value: Any, kind: Any) -> Any:
    """A value, which may be text, as the setting's type. Raises InputError, which says what the setting takes.

    name: the dotted one, for the error; kind: bool, int, float, str or a Literal of strings.

    >>> parse("training.lr", "1e-3", float)
    0.001
    """
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if choices:
        if isinstance(value, str) and value in choices:
            return value
        raise InputError(f"`{name}` can't be {shown(repr(value))}", hint=f"it is one of: {', '.join(choices)}")
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() in words:
            return words[str(value).lower()]
    elif kind is str and not isinstance(value, (dict, list)) and len(str(value)) <= LONGEST:
        return str(value)
    elif kind in (int, float) and not isinstance(value, bool):
        try:
            number = float(value)
            if kind is float and math.isfinite(number):
                return number
            if kind is int and number == int(number):
                return int(number)
        except (ValueError, OverflowError, TypeError):
            pass
    noun = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
    raise InputError(f"`{name}` can't be {shown(repr(value))}", hint=f"it takes {noun}")


def replace_in(node: Any, changes: Mapping[str, Any], prefix: str = "") -> Any:
    """A copy of a tree of dataclasses with some settings changed, by their dotted names, which must exist.

    Raises InputError for a value of another type than the setting's.
    """
    types = get_type_hints(type(node))
    new = {}
    for item in dataclasses.fields(node):
        name, value = prefix + item.name, getattr(node, item.name)
        if dataclasses.is_dataclass(value):
            new[item.name] = replace_in(value, changes, f"{name}.")
        elif name in changes:
            new[item.name] = parse(name, changes[name], types[item.name])
    return dataclasses.replace(node, **new)


def read_toml(text: str, name: str = "config.toml") -> dict[str, Any]:
    """The settings of a TOML text, by their dotted names. Raises InputError if it is not TOML."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, nested lists, wrong syntax
        raise InputError(
            f"{name} is not TOML: {shown(error)}", hint="`agecli info --settings` prints a good one"
        ) from error
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat.update({f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value})
    return flat
