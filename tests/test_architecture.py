"""The layout: imports point downwards only, and docs/design.md shows the real tree."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with its contracts on the package in a folder."""
    code = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package and its contracts, to be changed."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "agecli", tmp_path / "agecli", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_every_package_is_in_the_contract_and_imports_point_downwards(copy: Path) -> None:
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.importlinter]")[1]
    packages = {path.parent.name for path in (ROOT / "agecli").glob("*/__init__.py")}
    assert packages <= set(re.findall(r"agecli\.(\w+)", contracts))
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        ("core/ages.py", "def later() -> None:\n    from agecli.model import checkpoint\n"),
        ("forest/routing.py", "from agecli.images import alignment\n"),
        ("model/checkpoint.py", "from agecli.training import train\n"),
        ("scoring/metrics.py", "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from agecli.reports import tables\n"),
    ],
)
def test_an_import_that_points_upwards_breaks_the_contract(copy: Path, module: str, wrong: str) -> None:
    append(copy / "agecli" / module, wrong)
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "Packages import downwards only BROKEN" in done.stdout


def test_two_modules_of_a_package_that_import_each_other_break_the_contract(copy: Path) -> None:
    append(copy / "agecli/core/ages.py", "from agecli.core import version\n")
    append(copy / "agecli/core/version.py", "def later() -> None:\n    from agecli.core import ages\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "Modules of a package form no cycle BROKEN" in done.stdout


def append(path: Path, code: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{code}")


def test_nothing_lies_at_the_root_of_the_package() -> None:
    files = {path.name for path in (ROOT / "agecli").iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_the_tests_mirror_the_packages() -> None:
    for folder in (path.parent for path in (ROOT / "tests").glob("*/__init__.py")):
        assert (ROOT / "agecli" / folder.name / "__init__.py").is_file(), folder


def test_the_tree_in_the_design_document_is_the_real_one() -> None:
    spec = importlib.util.spec_from_file_location("tree", ROOT / "docs/tree.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tree = module.tree()
    assert tree in (ROOT / "docs/design.md").read_text(encoding="utf-8"), "python docs/tree.py"
    for line in tree.splitlines()[1:-1]:
        assert re.match(r" *\S+ +\S", line), f"no docstring: {line}"
