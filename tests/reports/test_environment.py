"""`agecli info` in the base install and in a training install."""

from __future__ import annotations

import subprocess
import sys

from agecli.reports.environment import lines

WITHOUT_TORCH = """
import sys
sys.modules.update(dict.fromkeys(("torch", "torchvision", "timm", "matplotlib", "scipy", "jinja2"), None))
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
from agecli.reports.environment import lines
print(dict(lines())["training"])
"""


def test_a_training_install_names_devices_weights_and_caches() -> None:
    names = dict(lines())
    assert {"agecli", "python", "torch", "cuda", "default backbone", "feature cache"} <= set(names)
    assert "model default.onnx" in names


def test_the_base_install_says_how_to_get_training() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "pip install 'agecli[train]'" in done.stdout
