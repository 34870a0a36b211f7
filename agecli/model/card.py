"""The model card: what a model file says of itself, beside its weights. No torch here."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agecli.core.ages import AgeGrid, Readout
from agecli.core.errors import InputError
from agecli.core.reading import read_object, shown
from agecli.core.version import __version__
from agecli.images.alignment import Alignment
from agecli.images.reading import PictureSpec
from agecli.model.card_checks import (
    check_alignment,
    check_calibration,
    check_grid,
    check_picture,
    check_readout,
)
from agecli.scoring.calibration import Calibration
from agecli.scoring.shift import ShiftReference

log = logging.getLogger("agecli")
FORMAT = 1  # of the JSON text; raised when older versions of agecli could no longer read it


@dataclass(frozen=True)
class Card:
    """Everything that prediction needs beside the network: input size, age grid, readout, alignment, calibration.

    A checkpoint builds it from its config (`Checkpoint.card`); an ONNX file holds it as JSON in its metadata.
    """

    picture: PictureSpec  # how an aligned face is resized, cropped and normalised
    grid: AgeGrid  # the ages that the pmf is defined on
    readout: Readout  # the point estimate it was trained for: mean, median or mode
    alignment: Alignment | None  # of the training faces; None if they were not made by `agecli preprocess`
    calibration: Calibration | None  # conformal calibration of the intervals; None if there is none
    shift: ShiftReference | None = None  # what the calibration faces look like, for the shift alarm; None if not known

    def to_json(self) -> str:
        """The card as JSON text, with its format number and the version of agecli that wrote it."""
        return json.dumps({"format": FORMAT, "version": __version__, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Card:
        """The inverse of `to_json`.

        Raises InputError if a newer agecli wrote it or a number in it is out of range; KeyError, TypeError or ValueError if
        it is not a card.
        """
        fields: dict[str, Any] = read_object(text, "its model card")
        if fields["format"] > FORMAT:
            raise InputError(
                f"its format is {shown(fields['format'])}, and agecli {__version__} reads formats up to {FORMAT}",
                hint="it was made by a newer agecli: upgrade this one",
            )
        card = cls(
            PictureSpec.read(fields["picture"]),
            AgeGrid(**fields["grid"]),
            fields["readout"],
            Alignment(**fields["alignment"]) if fields["alignment"] else None,
            Calibration.read(fields["calibration"]),
            ShiftReference.read(fields.get("shift")),
        )
        card.check()
        return card

    def warn_of_frame(self, data: Path) -> None:
        """Warn if the faces of a data folder are aligned in another way than those that the model was trained on."""
        known, here = self.alignment, Alignment.read(data)
        if known and (here is None or (here.eye_distance, here.eye_height) != (known.eye_distance, known.eye_height)):
            log.warning(
                "the faces in %s are not aligned as those the model was trained on; `agecli preprocess PHOTOS --out DIR"
                " --eye-distance %g --eye-height %g` aligns them so",
                data,
                known.eye_distance,
                known.eye_height,
            )

    def check(self) -> None:
        """Raise InputError, which names the value, if a number has the wrong type or is out of range."""
        check_picture(self.picture)
        check_grid(self.grid)
        check_readout(self.readout)
        if self.alignment is not None:
            check_alignment(self.alignment)
        if self.calibration is not None:
            check_calibration(self.calibration)
