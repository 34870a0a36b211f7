"""The examples in docs/python.md run one after the other, as in a notebook, and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import agecli

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")


def test_the_examples_run_in_a_fresh_process_without_torch(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 8
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/example.jpg").write_bytes((ROOT / "docs/example.jpg").read_bytes())
    (tmp_path / "notebook.py").write_text("\n".join([*blocks, "import sys", "assert 'torch' not in sys.modules"]))
    done = subprocess.run([sys.executable, "notebook.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.match(r"\d\d years, 90 % interval \d\d to \d\d, face at \(\d+, ", lines[0])
    assert lines[1].startswith("unreadable - ")
    assert lines[2].startswith("18 or older: ")
    assert lines[3].startswith("2 photos, 1 without an age: 1 of 2 inputs gave no age: missing.jpg")
    assert len((tmp_path / "ages.csv").read_text().splitlines()) == 3
    assert (tmp_path / "drawn/docs/example.jpg").is_file()


def test_the_table_of_fields_is_complete() -> None:
    table = "".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", table)) == {field.name for field in fields(agecli.Record)}
