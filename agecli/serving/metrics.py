"""Metrics of the server in the text format of Prometheus: counts, times and sizes, nothing about photos or people."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # bucket limits of request times
FACES = (1, 2, 4, 8, 16, 32)  # of faces per run of the model
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of values by buckets, and their sum.   limits: upper ends of the buckets, ascending"""

    def __init__(self, limits: tuple[float, ...]) -> None:
        self.limits, self.counts, self.sum = limits, [0] * (len(limits) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.limits, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """The lines of the text format: cumulative buckets, sum and count."""
        total, comma = 0, "," if labels else ""
        for limit, count in zip((*self.limits, "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{limit}"}} {total}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.sum:.6f}"
        yield f"{name}_count{braces} {total}"


class Metrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))  # by path
        self.photos: Counter[str] = Counter()  # by the status of their records
        self.faces = 0
        self.batches = Histogram(FACES)

    def add_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request.   path: of a route, never what a client made up"""
        self.requests[path, status] += 1
        self.seconds[path].add(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]], model: Mapping[str, str] | None) -> str:
        """All metrics.   gauges: names with their meaning and value;   model: its name and hash, once it is loaded"""
        lines = ["# HELP agecli_requests_total Requests by path and status.", "# TYPE agecli_requests_total counter"]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'agecli_requests_total{{path="{path}",status="{status}"}} {count}')
        lines += [
            "# HELP agecli_request_seconds Time from the head of a request to the end of its answer.",
            "# TYPE agecli_request_seconds histogram",
        ]
        for path in sorted(self.seconds):
            lines += self.seconds[path].lines("agecli_request_seconds", f'path="{path}"')
        lines += [
            "# HELP agecli_photos_total Photos by the status of their records.",
            "# TYPE agecli_photos_total counter",
        ]
        lines += [f'agecli_photos_total{{status="{name}"}} {count}' for name, count in sorted(self.photos.items())]
        lines += ["# HELP agecli_faces_total Faces with an age.", "# TYPE agecli_faces_total counter"]
        lines.append(f"agecli_faces_total {self.faces}")
        lines += ["# HELP agecli_batch_faces Faces per run of the model.", "# TYPE agecli_batch_faces histogram"]
        lines += self.batches.lines("agecli_batch_faces")
        for name, (meaning, value) in gauges.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name} {value:.10g}"]
        if model:
            labels = ",".join(f'{key}="{escaped(value)}"' for key, value in model.items())
            lines += ["# HELP agecli_model_info The model that is served.", "# TYPE agecli_model_info gauge"]
            lines.append(f"agecli_model_info{{{labels}}} 1")
        return "\n".join(lines) + "\n"


def escaped(value: str) -> str:
    """A label value in the text format."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident_memory() -> int:
    """Resident memory of this process in bytes; 0 where /proc is not there."""
    try:
        import resource

        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ImportError):
        return 0
