"""Errors that a user can repair: what was wrong, with the value, and what to do next.

The command line prints them without a traceback and exits with their `exit_code`.
"""

from __future__ import annotations


class AgecliError(Exception):
    """Base class of all errors that agecli raises on purpose: wrong use or wrong settings.

    message: what was wrong, with the offending value.
    hint: what to do next; may be empty.

        try:
            agecli.train("faces")
        except agecli.AgecliError as error:
            print(error.message, error.hint)
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(AgecliError):
    """Data that can be read but not used: no ages, a broken checkpoint, a misspelt setting."""


class MissingError(AgecliError):
    """Something required is missing: a folder, a weights file, a device, an optional package."""

    exit_code = 3


class DiskFullError(AgecliError):
    """A file can't be written for lack of space; what was there before is intact."""


class TrainingError(AgecliError):
    """Training failed with these settings, for example by a loss that is not finite; saved checkpoints are intact."""


class Interrupted(AgecliError):
    """SIGINT or SIGTERM was received; progress was saved before the exit."""

    exit_code = 130
