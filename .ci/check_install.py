"""Build the wheel, install it without extras in a fresh virtual environment, and run it from another folder.

    python .ci/check_install.py

Checks the size of all wheels together, that no package for training is installed, that the commands of the base
install work, and that each of the others ends with exit code 3 and the line that installs what it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMIT = 130e6  # bytes of wheels, our own included
ABSENT = ("torch", "torchvision", "timm", "onnx", "scipy", "h5py", "matplotlib", "dlib", "starlette", "uvicorn")
WORKING = (
    "info",
    "predict example.jpg --format jsonl",
    "preprocess photos --out aligned",
    "audit photos",
    "split photos --setup random",
    "toy toy --count 20",
)
NEEDING_TRAIN = (
    "train --data toy",
    "evaluate --data toy",
    "study ablation --data toy --out study",
    "inspect default",
    "export default --out model.onnx",
    "plot leaves default",
    "plot distribution example.jpg",
)


def main() -> None:
    """Run all checks in a temporary folder; ends with an AssertionError at the first that fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = build_wheels(folder / "wheels")
        python = install(folder / "venv", wheels)
        check_packages(python)
        work = make_photos(folder / "work")
        check_commands(python, work)


def build_wheels(folder: Path) -> Path:
    """Our wheel and those of all base dependencies, whose sizes are printed and checked."""
    pip(sys.executable, "wheel", "--quiet", "--wheel-dir", str(folder), str(ROOT))
    sizes = {path.name.split("-")[0]: path.stat().st_size for path in folder.iterdir()}
    for package, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size / 1e6:8.2f} MB  {package}")
    total = sum(sizes.values())
    print(f"{total / 1e6:8.2f} MB  of wheels, at most {LIMIT / 1e6:.0f} are allowed")
    assert total <= LIMIT
    return folder


def install(venv: Path, wheels: Path) -> Path:
    """A new virtual environment with agecli in it; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin/python"
    pip(python, "install", "--quiet", "--no-index", "--find-links", str(wheels), "agecli")
    pip(python, "check")
    size = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{size / 1e6:8.2f} MB  installed, pip included")
    return python


def pip(python: Path | str, *arguments: str) -> None:
    """Run pip, without its warnings about itself."""
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def check_packages(python: Path) -> None:
    """No optional package came with the base install."""
    code = f"from importlib.util import find_spec; print([name for name in {ABSENT} if find_spec(name)])"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]", found


def make_photos(work: Path) -> Path:
    """A folder with the README's portrait, and a labelled data set: four copies of it."""
    (work / "photos").mkdir(parents=True)
    shutil.copy(ROOT / "docs/example.jpg", work / "example.jpg")
    rows = ["path,age"]
    for number in range(4):
        shutil.copy(ROOT / "docs/example.jpg", work / f"photos/{number}.jpg")
        rows.append(f"{number}.jpg,42")
    (work / "photos/labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return work


def check_commands(python: Path, work: Path) -> None:
    """The base commands work; the others say what to install."""
    for command in WORKING:
        done = agecli(python, work, command)
        assert done.returncode == 0, done.stderr
        if command.startswith("predict"):
            (record,) = [json.loads(line) for line in done.stdout.splitlines()]
            assert record["status"] == "ok", record
            print(f"            age {record['age']}, {record['low']} to {record['high']}")
    for command in NEEDING_TRAIN:
        done = agecli(python, work, command)
        assert done.returncode == 3, (done.returncode, done.stderr)
        error, hint = done.stderr.splitlines()
        print("           ", error)
        assert hint == " hint: pip install 'agecli[train]'", hint
    for command, extra in (("predict example.jpg --detector hog", "detectors"), ("serve --port 0", "serve")):
        done = agecli(python, work, command)
        assert done.returncode == 3, done.stderr
        assert f"pip install 'agecli[{extra}]'" in done.stderr, done.stderr


def agecli(python: Path, work: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run an installed command in the work folder, without the clone on the path."""
    print("+ agecli", command, flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python.with_name("agecli"), *command.split()], cwd=work, env=environment, capture_output=True, text=True
    )


if __name__ == "__main__":
    main()
