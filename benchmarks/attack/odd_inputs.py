"""Odd inputs: photos that kill their reader, pipes, sockets, devices, long names, huge pictures, formats in disguise.

    from benchmarks.attack.odd_inputs import POISONS, odd_inputs, poisoned_environment

`odd_inputs` makes files that exist in the wild. No known photo crashes today's decoders, so a poison is a photo whose
name says what happens, and a `sitecustomize.py` on PYTHONPATH that does it when Pillow or OpenCV opens the file, in every
process; with `drawn-` before it, only when it is opened to be drawn.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from PIL import Image

POISONS = ("segfault", "abort", "kill", "exit", "memory", "hang")
HUGE = 10_900  # pixels of a side; in black and white, a PNG of 14 kB
LONGEST = 255  # bytes of a file name
SITECUSTOMIZE = """
import ctypes, os, signal, sys
import cv2
from PIL import Image

def is_drawing():
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_globals.get("__name__") == "agecli.prediction.drawing":
            return True

def poison(name):
    if is_drawing():
        name = name.removeprefix("drawn-")
    if name.startswith("segfault"): ctypes.string_at(0)
    if name.startswith("abort"): os.abort()
    if name.startswith("kill"): os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("exit"): os._exit(7)
    if name.startswith("memory"): bytearray(3 * 10**9)
    while name.startswith("hang"): ctypes.CDLL(None).sleep(1000)

def open_poison(file, *args, **options):
    path = os.readlink(f"/proc/self/fd/{file.fileno()}") if hasattr(file, "fileno") else str(file)
    poison(os.path.basename(path))
    return opened(file, *args, **options)

opened, Image.open = Image.open, open_poison
capture = cv2.VideoCapture

class PoisonCapture:
    def __init__(self, path):
        self.path, self.video = path, capture(path)
        poison(os.path.basename(path))

    def grab(self):
        if self.video.get(cv2.CAP_PROP_POS_FRAMES) >= 3:
            poison(os.path.basename(self.path).removeprefix("later-"))
        return self.video.grab()

    def __getattr__(self, name):
        return getattr(self.video, name)

cv2.VideoCapture = PoisonCapture
"""


def poisoned_environment(folder: Path) -> dict[str, str]:
    """Environment variables with which photos that are named like POISONS are poisonous; `folder` gets a module."""
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


def huge_png(path: Path, side: int = HUGE) -> None:
    """A small file with many pixels."""
    Image.new("1", (side, side)).save(path)


def eps(path: Path) -> None:
    """An EPS file, for which Pillow would start Ghostscript."""
    Image.new("RGB", (8, 8)).save(path, "EPS")


def pipe(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    """A socket that nobody listens to."""
    os.mknod(path, stat.S_IFSOCK | 0o600)


def zeros(path: Path) -> None:
    """A link to a device without an end."""
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    """A link that leads to itself."""
    path.symlink_to(path.name)


def empty_folder(path: Path) -> None:
    """An empty folder that is named like a photo."""
    path.mkdir()


ODD: dict[str, Callable[[Path], None]] = {
    "pipe.jpg": pipe,
    "pipe.mp4": pipe,
    "socket.jpg": unix_socket,
    "zeros.jpg": zeros,
    "loop.jpg": loop,
    "folder.jpg": empty_folder,
    "eps.jpg": eps,
    "empty.jpg": Path.touch,
}


def odd_inputs(folder: Path) -> list[Path]:
    """Make one of each in a folder; all are inputs that can't be read, and none may hold up the others."""
    for name, make in ODD.items():
        make(folder / name)
    return [folder / name for name in ODD]


def long_name(suffix: str = ".jpg") -> str:
    """A name as long as file systems allow, in two-byte letters."""
    return "é" * ((LONGEST - len(suffix)) // 2) + suffix
