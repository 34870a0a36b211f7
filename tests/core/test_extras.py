"""A package that is missing is named, with the line that installs it; other failed imports keep their traceback."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from agecli.core.errors import MissingError
from agecli.core.extras import EXTRAS, explain, require


def test_installed_modules_are_no_error() -> None:
    installed = ("torch", "dlib")
    assert all(importlib.util.find_spec(module) for module in installed)
    require(*installed)


@pytest.mark.parametrize(("extra", "module"), [(extra, module) for extra in EXTRAS for module in EXTRAS[extra]])
def test_every_optional_module_belongs_to_an_extra(extra: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError, match=f"^`agecli train` needs {module}, which is not installed$") as missing:
        require(module, needed_by="`agecli train`")
    assert missing.value.hint == f"pip install 'agecli[{extra}]'"
    error = explain(ModuleNotFoundError(name=f"{module}.part"), "`agecli train`")
    assert error is not None
    assert (error.message, error.hint) == (missing.value.message, missing.value.hint)


@pytest.mark.parametrize("name", ["agecli.nothing", "collections.nothing", "torch.nothing", "", None])
def test_a_failed_import_that_no_extra_mends_is_not_explained(name: str | None) -> None:
    assert explain(ModuleNotFoundError(name=name)) is None


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("torch", "train"),
        ("torch", "evaluate --data ."),
        ("torch", "export m.safetensors"),
        ("matplotlib", "plot history runs"),
    ],
)
def test_a_command_without_its_extra_ends_with_3_and_the_line_to_type(module: str, command: str, toy: Path) -> None:
    done = without(module, f"import sys; sys.argv[1:] = {command.split()}; from agecli.cli import main; main()", toy)
    expected = f"error: `agecli {command.split()[0]}` needs {module}, which is not installed\n"
    assert (done.stderr, done.stdout) == (f"{expected} hint: pip install 'agecli[train]'\n", "")
    assert done.returncode == 3


def test_info_works_without_torch_and_says_how_to_get_it(toy: Path) -> None:
    done = without("torch", "import sys; sys.argv[1:] = ['info']; from agecli.cli import main; main()", toy)
    assert done.returncode == 0, done.stderr
    assert "pip install 'agecli[train]'" in done.stdout


def test_a_python_function_without_its_extra_raises_the_same_error(toy: Path) -> None:
    done = without("torch", "import agecli; assert hasattr(agecli, 'train'); agecli.train('toy')", toy)
    assert done.stderr.endswith("MissingError: `agecli.train` needs torch, which is not installed\n")


def without(module: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process where a module can't be imported."""
    block = f"import sys; sys.modules[{module!r}] = None; "
    return subprocess.run([sys.executable, "-c", block + code], cwd=folder, capture_output=True, text=True, timeout=120)


def test_serve_without_its_packages_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['h11'] = sys.modules['uvicorn'] = sys.modules['starlette'] = None; "
        "sys.argv[1:] = ['serve', '--port', '0']; from agecli.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "pip install 'agecli[serve]'" in done.stderr
