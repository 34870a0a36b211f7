"""Record docs/terminal.svg: run the commands of docs/train.md and draw their output as a terminal.

python docs/record.py
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
COMMANDS = (
    "agecli toy toy",
    "agecli train --data toy --freeze --out runs/toy",
    "agecli evaluate runs/toy",
    "agecli predict toy/images/0007_* --no-detect --model runs/toy/fold-1/best.safetensors",
)


def run(command: str, folder: Path) -> str:
    """The output of a command: stdout as on a terminal, stderr as in a log file."""
    master, slave = pty.openpty()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "110"}
    process = subprocess.Popen(command, shell=True, cwd=folder, stdout=slave, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    log = process.stderr.read().decode()
    process.wait()
    os.close(slave)
    shown = b""
    try:
        while block := os.read(master, 65536):
            shown += block
    except OSError:  # the terminal is closed: all was read
        pass
    return log + shown.decode().replace("\r\n", "\n")


def main() -> None:
    """Run all commands in an empty folder and write terminal.svg."""
    console = Console(record=True, width=120, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            console.print(f"[bold green]$[/] [bold]{command}[/]", highlight=False)
            console.print(Text.from_ansi(run(command, Path(folder)).rstrip("\n")), soft_wrap=True)
            console.print()
    console.save_svg(str(HERE / "terminal.svg"), title="agecli", theme=MONOKAI)


if __name__ == "__main__":
    main()
