"""Throughput on a CPU with and without reuse of freed memory and channels-last: EfficientNet-Lite0 at 224 px.

python -m benchmarks.memory
"""

from __future__ import annotations

import subprocess
import sys
import time

import torch

from agecli.model.backbones import build_backbone
from agecli.model.devices import keep_memory

BATCHES = (16, 64)
SECONDS = 4.0


def measure(keep: bool) -> None:
    """Print faces per second of the forward pass and of training, for each memory layout and batch size."""
    if keep:
        keep_memory()
    network = build_backbone("timm:tf_efficientnet_lite0", 0, 0.875).network
    for layout in (torch.contiguous_format, torch.channels_last):
        network = network.to(memory_format=layout)  # type: ignore[call-overload]
        for batch in BATCHES:
            pixels = torch.randn(batch, 3, 224, 224).to(memory_format=layout)
            print(f"  {str(layout).removeprefix('torch.'):<18} batch {batch:>2}", end="")
            for training in (False, True):
                network.train(training)
                run(network, pixels, training)
                begin, faces = time.perf_counter(), 0
                while time.perf_counter() - begin < SECONDS:
                    run(network, pixels, training)
                    faces += batch
                print(
                    f"  {'training' if training else 'forward'} {faces / (time.perf_counter() - begin):5.1f} faces/s",
                    end="",
                )
            print(flush=True)


def run(network: torch.nn.Module, pixels: torch.Tensor, training: bool) -> None:
    """One forward pass, with its backward pass if training."""
    with torch.set_grad_enabled(training):
        output = network(pixels)
    if training:
        network.zero_grad()
        output.mean().backward()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1] == "keep")
    else:
        for name, word in (("memory returned to the system", "return"), ("memory kept for reuse", "keep")):
            print(name, flush=True)
            subprocess.run([sys.executable, "-m", "benchmarks.memory", word], check=True)
