"""The errors a user can mend: what was wrong, with the value, and what to do next."""

from __future__ import annotations


class AgecliError(Exception):
    """Wrong use or wrong settings. The edge of the CLI prints it without a traceback."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(AgecliError):
    """Data that can be read but not used: no ages, a broken checkpoint, a misspelt setting."""


class MissingError(AgecliError):
    """Something needed is not there: a folder, a weights file, a device."""

    exit_code = 3


class TrainingError(AgecliError):
    """Training could not go on with these settings; what was saved before is still good."""


class Interrupted(AgecliError):
    """Asked to stop (SIGINT or SIGTERM), and did so after saving."""

    exit_code = 130
