"""Group photos made of real faces, and pictures without faces: recall by face size, false faces and time.

    python -m benchmarks.groups DATA                        # DATA has folders such as aaf/ and appa/, each with images/
    python -m benchmarks.groups DATA --looks closer --draw drawn --groups 4 --faceless 40

Each group photo has 6 to 40 faces of one height (of YuNet's box in the original): scattered on a texture, 12 megapixels
or less, or as a mosaic of whole photos. A face is found if a box overlaps it with an IoU of at least 0.4; other boxes are
false faces. Everything is seeded. Times are CPU times of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw

from agecli.images.alignment import Photo
from agecli.images.detection import find_faces
from agecli.images.faces import Box, Face
from agecli.images.folders import photos_in
from agecli.images.reading import read_picture
from benchmarks.faceless import KINDS, faceless, noise, tiled

HEIGHTS = (24, 32, 48, 64, 96)  # of the faces, in pixels
SIZES = ((4000, 3000), (3000, 4000), (2400, 1600), (1280, 960))  # of scattered groups, width and height
SOURCES = ("aaf", "appa", "fgnet", "wiki")
MIN_IOU = 0.4
SURE = 0.85  # least score of an original's face: where YuNet is not sure, the truth is not known either


@dataclass(frozen=True)
class Group:
    """A group photo and the true boxes of its faces."""

    photo: Photo
    boxes: tuple[Box, ...]


def originals(data: Path, number: int, rng: np.random.Generator) -> list[tuple[Photo, Box]]:
    """Real photos with exactly one face, and its box; `number` of them, from all sources."""
    found: list[tuple[Photo, Box]] = []
    folders = [data / name / "images" for name in SOURCES if (data / name / "images").is_dir()]
    names = [[folder / name for name in photos_in(folder)] for folder in folders]
    while len(found) < number:
        choice = names[len(found) % len(names)]
        photo = np.asarray(read_picture(choice[int(rng.integers(len(choice)))]))
        faces = find_faces(photo, looks="closer")
        if len(faces) == 1 and faces[0].score >= SURE:
            found.append((photo, faces[0].box))
    return found


def shrunk(photo: Photo, box: Box, height: float) -> tuple[Photo, Box]:
    """A photo resized so that its face has this height, and the face's box in it."""
    scale = height / box[3]
    size = tuple(max(1, round(side * scale)) for side in (photo.shape[1], photo.shape[0]))
    small = cv2.resize(photo, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    x, y, w, h = (value * scale for value in box)
    return np.asarray(small, np.uint8), (x, y, w, h)


def scattered(faces: Sequence[tuple[Photo, Box]], height: int, rng: np.random.Generator) -> Group:
    """Faces with their surroundings, at random places of a texture or clouds, faded out towards the background."""
    width, tall = SIZES[int(rng.integers(len(SIZES)))]
    photo = (tiled if rng.random() < 0.7 else noise)(rng, tall, width)
    boxes: list[Box] = []
    taken: list[tuple[int, int, int, int]] = []
    for original, box in faces[: int(rng.integers(6, 41))]:
        part, (bx, by, w, h) = shrunk(original, box, height * rng.uniform(0.95, 1.05))
        rows, columns = part.shape[:2]
        for _ in range(50):
            x, y = int(rng.integers(0, width - columns)), int(rng.integers(0, tall - rows))
            if not any(
                x < right and y < low and left < x + columns and top < y + rows for left, top, right, low in taken
            ):
                break
        else:
            continue
        taken.append((x, y, x + columns, y + rows))
        fade = cv2.GaussianBlur(
            np.pad(np.ones((rows - 4, columns - 4, 1), np.float32), ((2, 2), (2, 2), (0, 0))), (0, 0), 1.5
        )
        place = photo[y : y + rows, x : x + columns]
        place[:] = fade[..., None] * part + (1 - fade[..., None]) * place
        boxes.append((x + bx, y + by, w, h))
    return Group(photo, tuple(boxes))


def mosaic(faces: Sequence[tuple[Photo, Box]], height: int, rng: np.random.Generator) -> Group:
    """Whole photos side by side in rows."""
    parts = [shrunk(*face, height) for face in faces[: int(rng.integers(9, 41))]]
    side = max(max(part.shape[:2]) for part, _ in parts)
    columns = int(np.ceil(np.sqrt(len(parts))))
    photo = np.full((-(-len(parts) // columns) * side, columns * side, 3), rng.integers(0, 256, 3), np.uint8)
    boxes: list[Box] = []
    for number, (part, (x, y, w, h)) in enumerate(parts):
        top, left = number // columns * side, number % columns * side
        photo[top : top + part.shape[0], left : left + part.shape[1]] = part
        boxes.append((left + x, top + y, w, h))
    return Group(photo, tuple(boxes))


def iou(one: Box, two: Box) -> float:
    """The intersection over union of two boxes."""
    width = min(one[0] + one[2], two[0] + two[2]) - max(one[0], two[0])
    height = min(one[1] + one[3], two[1] + two[3]) - max(one[1], two[1])
    shared = max(0.0, width) * max(0.0, height)
    return shared / (one[2] * one[3] + two[2] * two[3] - shared)


def drawn(path: Path, photo: Photo, faces: Sequence[Face], boxes: Sequence[Box]) -> None:
    """A copy with the true boxes in red and the boxes, eyes and scores found in green."""
    image = Image.fromarray(photo)
    canvas = ImageDraw.Draw(image)
    for x, y, w, h in boxes:
        canvas.rectangle((x - 3, y - 3, x + w + 3, y + h + 3), outline="red", width=2)
    for face in faces:
        x, y, w, h = face.box
        canvas.rectangle((x, y, x + w, y + h), outline="lime", width=2)
        canvas.text((x, y + h), f"{face.score:.2f} {face.detector}", fill="lime")
        for ex, ey in (face.left_eye, face.right_eye):
            canvas.ellipse((ex - 2, ey - 2, ex + 2, ey + 2), fill="cyan")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def measure_groups(options: argparse.Namespace) -> None:
    """Print recall, false faces and time for each face height."""
    print(f"{'group photos':<14} {'faces':>6} {'found':>7} {'false/photo':>11} {'megapixels':>10} {'ms/photo':>8}")
    pool = originals(options.data, options.originals, np.random.default_rng(options.seed))
    for height in HEIGHTS:
        rng = np.random.default_rng((options.seed, height))
        faces, found, false, seconds, pixels = 0, 0, 0, 0.0, 0
        for number in range(options.groups):
            make = scattered if number % 2 == 0 else mosaic
            group = make([pool[place] for place in rng.permutation(len(pool))[:40]], height, rng)
            begin = time.process_time()
            seen = find_faces(group.photo, looks=options.looks)
            seconds += time.process_time() - begin
            hits = [any(iou(box, face.box) >= MIN_IOU for face in seen) for box in group.boxes]
            wrong = [face for face in seen if all(iou(box, face.box) < MIN_IOU for box in group.boxes)]
            faces, found, false = faces + len(hits), found + sum(hits), false + len(wrong)
            pixels += group.photo.shape[0] * group.photo.shape[1]
            if options.draw:
                drawn(options.draw / f"{height}-{number}-{make.__name__}.png", group.photo, seen, group.boxes)
        each = max(1, options.groups)
        print(
            f"{f'{height} pixels':<14} {faces:>6} {found / max(1, faces):>7.1%} {false / each:>11.2f} "
            f"{pixels / each / 1e6:>10.1f} {1e3 * seconds / each:>8.0f}",
            flush=True,
        )


def measure_faceless(options: argparse.Namespace) -> None:
    """Print the number of false faces and the time for each kind of picture without a face."""
    counts = {kind: [0, 0, 0.0] for kind in KINDS}  # pictures, false faces, seconds
    for number in range(options.faceless):
        kind, photo = faceless(number, options.seed)
        begin = time.process_time()
        seen = find_faces(photo, looks=options.looks)
        for place, more in enumerate((1, len(seen), time.process_time() - begin)):
            counts[kind][place] += more
        if options.draw and seen:
            drawn(options.draw / f"faceless-{number}-{kind}.png", photo, seen, ())
    print(f"\n{'without faces':<14} {'photos':>6} {'false':>6} {'ms/photo':>8}")
    for kind, (photos, false, seconds) in (*counts.items(), ("all", map(sum, zip(*counts.values(), strict=True)))):
        print(f"{kind:<14} {photos:>6.0f} {false:>6.0f} {1e3 * seconds / max(1, photos):>8.0f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--looks", default="auto", help="fast, auto or closer, as in `find_faces`")
    parser.add_argument("--originals", type=int, default=400, help="real photos that the groups are made of")
    parser.add_argument("--groups", type=int, default=12, help="group photos for each face height")
    parser.add_argument("--faceless", type=int, default=400, help="pictures without faces")
    parser.add_argument("--draw", type=Path, help="folder for the photos with boxes: all groups, and false faces")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    measure_groups(options)
    measure_faceless(options)


if __name__ == "__main__":
    main()
