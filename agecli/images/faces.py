"""A detected face: its box, eyes and score, and how they move when the photo is scaled, shifted or turned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from agecli.images.alignment import Point

Box = tuple[float, float, float, float]  # x, y, w, h in the photo's pixels


@dataclass(frozen=True)
class Face:
    """A detected face, in pixels of the photo as it lies."""

    box: Box
    left_eye: Point  # the one on the left when the face is upright
    right_eye: Point
    score: float  # of the detector; comparable between faces of one detector only
    detector: str  # and how it was applied: `yunet-dlib+padded`
    turn: int = 0  # quarter turns anticlockwise that make the face upright
    profile: bool = False  # seen from the side: one eye at most is visible, and an aligned crop shows no whole face

    @property
    def size(self) -> float:
        """The area of the box, in square pixels."""
        return self.box[2] * self.box[3]

    @property
    def eye_distance(self) -> float:
        """The distance between the eyes, in pixels."""
        return math.dist(self.left_eye, self.right_eye)

    def scaled(self, fx: float, fy: float) -> Face:
        """The same face in a photo that is fx times as wide and fy times as high."""
        x, y, w, h = self.box
        left, right = ((eye[0] * fx, eye[1] * fy) for eye in (self.left_eye, self.right_eye))
        return replace(self, box=(x * fx, y * fy, w * fx, h * fy), left_eye=left, right_eye=right)

    def moved(self, dx: float, dy: float) -> Face:
        """The same face in a photo that has dx more columns on the left and dy more rows at the top."""
        x, y, w, h = self.box
        left, right = ((eye[0] + dx, eye[1] + dy) for eye in (self.left_eye, self.right_eye))
        return replace(self, box=(x + dx, y + dy, w, h), left_eye=left, right_eye=right)

    def turned_back(self, turn: int, width: int, height: int) -> Face:
        """A face of `np.rot90(photo, turn)` in coordinates of the photo, which has this width and height."""
        if not turn:
            return self
        face = self
        for step in reversed(range(turn)):  # each undoes one quarter turn; the photo was so wide before it:
            side = width if step % 2 == 0 else height
            x, y, w, h = face.box
            left, right = ((side - 1 - eye[1], eye[0]) for eye in (face.left_eye, face.right_eye))
            face = replace(face, box=(side - y - h, x, h, w), left_eye=left, right_eye=right)
        return replace(face, turn=(self.turn + turn) % 4)


def same(one: Face, two: Face) -> bool:
    """Whether two boxes are of one face: half of the smaller one is inside of the other."""
    (ax, ay, aw, ah), (bx, by, bw, bh) = one.box, two.box
    width, height = min(ax + aw, bx + bw) - max(ax, bx), min(ay + ah, by + bh) - max(ay, by)
    return width > 0 and height > 0 and 2 * width * height > min(one.size, two.size)


def distinct(faces: list[Face], known: list[Face]) -> list[Face]:
    """The faces that are not among the `known` ones, each once: of several boxes of one face, that of the highest score."""
    new: list[Face] = []
    for face in sorted(faces, key=lambda face: -face.score):
        if not any(same(face, other) for other in (*known, *new)):
            new.append(face)
    return new
