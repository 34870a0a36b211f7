"""What the documents say is true: every name in them exists, every label in the code is explained."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from agecli.cli import app

ROOT = Path(__file__).parent.parent
EQUATIONS = (ROOT / "docs/equations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`(?:eqn|fig):.*?) \| .*? \| `(agecli\.\S+)` \| `(tests/\S+)` \|$", EQUATIONS, re.M)


def resolve(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"{name} can't be imported")


def test_the_table_of_equations_is_read() -> None:
    assert len(ROWS) == EQUATIONS.count("\n| `eqn:") + EQUATIONS.count("\n| `fig:") > 20


@pytest.mark.parametrize(("label", "function", "test"), ROWS)
def test_each_equation_has_its_function_and_its_test(label: str, function: str, test: str) -> None:
    assert callable(resolve(function)), label
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_each_label_in_the_code_stands_in_the_table() -> None:
    known = set(re.findall(r"(?:eqn|fig):\w+", EQUATIONS))
    used = {
        label
        for folder in ("agecli", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for label in re.findall(r"(?:eqn|fig):[a-zA-Z_]+", path.read_text(encoding="utf-8"))
        if path != Path(__file__)
    }
    assert used
    assert used <= known


def test_each_command_and_file_in_the_readme_is_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = set(
        re.findall(
            r"\bagecli (train|evaluate|predict|info|toy|preprocess|audit|split|export|study|inspect|plot)\b", readme
        )
    )
    assert commands <= {
        *(command.name or command.callback.__name__ for command in app.registered_commands if command.callback),
        *(group.name for group in app.registered_groups),
    }
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", readme):
        assert (ROOT / link).exists(), link
    options = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", readme))
    scripts = [*ROOT.glob("agecli/cli/*.py"), *ROOT.glob("models/recipe/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    group: Any = typer.main.get_command(app)
    commands_and_plots = [*group.commands.values(), *group.commands["plot"].commands.values()]
    known = {name for command in commands_and_plots for parameter in command.params for name in parameter.opts}
    source = "".join(path.read_text(encoding="utf-8") for path in scripts)
    for option in options - {"--nproc-per-node", "--help", "--version", "--install-completion"}:
        assert option in known or f'"{option}"' in source, option


def test_the_ci_runs_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "<!-- tests -->" in readme
    assert "<!-- tests -->" in (ROOT / ".ci/run").read_text(encoding="utf-8")
