"""The public names of the package: found by `dir`, by type checkers and by users, and quick to import."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import agecli

PACKAGE = Path(agecli.__file__).parent


def test_dir_lists_every_public_name_and_each_can_be_used() -> None:
    assert set(agecli.__all__) <= set(dir(agecli))
    for name in agecli.__all__:
        assert getattr(agecli, name), name
    with pytest.raises(AttributeError, match="has no attribute `fly`"):
        agecli.fly  # noqa: B018


def test_type_checkers_see_the_same_names_from_the_same_modules_as_users() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    assert typed.keys() == set(agecli.__all__) - {"__version__"}
    for name, module in typed.items():
        assert name
        assert module
        assert getattr(agecli, name) is getattr(import_module(module), name)
    assert (PACKAGE / "py.typed").is_file()


def test_a_star_import_replaces_no_builtin() -> None:
    assert not set(agecli.__all__) & {name for name in dir(builtins) if not name.startswith("_")}


def test_every_public_name_is_documented() -> None:
    undocumented = [name for name in agecli.__all__ if name != "__version__" and not getattr(agecli, name).__doc__]
    assert not undocumented


def test_errors_have_one_base_class() -> None:
    for error in (agecli.InputError, agecli.MissingError, agecli.TrainingError, agecli.Interrupted):
        assert issubclass(error, agecli.AgecliError)


def test_importing_the_package_imports_no_library() -> None:
    code = "import sys, agecli; dir(agecli); print({'numpy', 'PIL', 'cv2', 'torch', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
