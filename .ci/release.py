"""Build and check a release: sdist, wheel, SBOM and hashes, in dist/. It stops before anything is published.

    python .ci/release.py [--out dist] [--draft]

1. The version in agecli/core/version.py is that of CITATION.cff and of the first released section of CHANGELOG.md; nothing is
   uncommitted (--draft skips this).
2. sdist and wheel are built, and `twine check --strict` reads them.
3. Each is installed without extras in a fresh virtual environment, where agecli predicts docs/example.jpg from another folder.
4. An SBOM (CycloneDX JSON) lists what was installed with the wheel; SHA256SUMS has the hashes of all files.
5. The commands that would publish are printed. They are not run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOOLS = ("build>=1.2,<2", "twine>=6.1,<7", "cyclonedx-bom>=7,<8")
sys.dont_write_bytecode = True


def main() -> None:
    """Run all steps; ends with an error at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--draft", action="store_true", help="also with uncommitted changes")
    options = parser.parse_args()
    version = check_version()
    if not options.draft:
        check_committed()
    out = options.out.resolve()
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"{out} is not empty: move its files away, or use another --out")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = environment(folder / "tools", *TOOLS)
        run(tools, "-m", "build", "--outdir", str(out), str(ROOT))
        files = sorted(out.iterdir())
        assert [file.suffix for file in files] == [".whl", ".gz"], files
        run(tools, "-m", "twine", "check", "--strict", *map(str, files))
        for file in files:
            python = environment(folder / file.suffix, str(file))
            try_it(python, folder, version)
            if file.suffix == ".whl":
                sbom = out / f"agecli-{version}.cdx.json"
                run(tools, "-m", "cyclonedx_py", "environment", "--output-file", str(sbom), str(python))
                check_sbom(sbom, version)
    write_hashes(out)
    print(NEXT.format(version=version, out=out))


NEXT = """
Release {version} is built and checked, in {out}. Nothing was published. To publish it:

    git tag -s v{version} -m "agecli {version}" && git push origin v{version}
    twine upload {out}/agecli-{version}*.whl {out}/agecli-{version}.tar.gz
    gh release create v{version} --notes-file CHANGELOG.md {out}/*
    zensical build --strict --clean        # and put site/ where the documentation is served
"""


def check_version() -> str:
    """The version, which is the same in all places that name it."""
    source = (ROOT / "agecli/core/version.py").read_text(encoding="utf-8")
    version = found(r'__version__ = "([^"]+)"', source)
    cited = found(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changed = found(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not version == cited == changed:
        raise SystemExit(
            f"version.py has {version}, CITATION.cff {cited}, the newest release in CHANGELOG.md is {changed}"
        )
    return version


def found(pattern: str, text: str) -> str:
    """The first group of a pattern in a text."""
    match = re.search(pattern, text, re.M)
    assert match, pattern
    return match[1]


def check_committed() -> None:
    """A release is made of what is committed."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    if changed:
        raise SystemExit(f"commit these first, or use --draft:\n{changed}")


def environment(folder: Path, *packages: str) -> Path:
    """A fresh virtual environment with some packages; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *packages)
    return python


def run(python: Path, *arguments: str) -> None:
    """Run a Python program, with its command printed."""
    print("+", python.parent.parent.name, *arguments, flush=True)
    subprocess.run([python, *arguments], check=True)


def try_it(python: Path, folder: Path, version: str) -> None:
    """The installed agecli says its version, and finds one face in the portrait, away from the clone."""
    shutil.copy(ROOT / "docs/example.jpg", folder)
    command = python.with_name("agecli")
    said = subprocess.run([command, "--version"], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert said == f"agecli {version}\n", said
    line = subprocess.run(
        [command, "predict", "example.jpg"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    record = json.loads(line)
    assert record["status"] == "ok", record
    assert record["low"] < 42 < record["high"], record
    print(f"  {said.strip()}: age {record['age']}, {record['low']} to {record['high']}", flush=True)


def check_sbom(path: Path, version: str) -> None:
    """The SBOM names agecli and what it needs, each with its version."""
    parts = {
        part["name"].lower(): part["version"] for part in json.loads(path.read_text(encoding="utf-8"))["components"]
    }
    assert parts["agecli"] == version, parts
    assert {"numpy", "onnxruntime", "opencv-python-headless", "pandas", "pillow", "typer"} <= parts.keys(), parts
    print(f"  {path.name}: {len(parts)} components", flush=True)


def write_hashes(out: Path) -> None:
    """SHA256SUMS, as `sha256sum -c` reads it."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
