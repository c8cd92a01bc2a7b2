"""Exceptions of the package."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

__all__ = ["BadInput", "Error", "Missing", "Mistake", "ScenarioError"]


class Error(Exception):
    """A run or another operation failed."""


class BadInput(Error, ValueError):
    """An argument is invalid."""


class Missing(Error):
    """This machine lacks a privilege, a feature, a kernel or a program."""


class Mistake(NamedTuple):
    """A mistake in a scenario."""

    message: str
    """The message."""
    help: Optional[str]
    """How to correct it, if that is known."""
    location: str
    """Its position as text: ``FILE:LINE:COLUMN``, or the changed value."""
    file: str
    """The file's name; of a changed value ``--set``."""
    line: Optional[int]
    """The line, from 1; ``None`` for a changed value."""
    column: Optional[int]
    """The column, from 1; ``None`` for a changed value."""


class ScenarioError(BadInput):
    """A scenario has mistakes. ``mistakes`` has all of them; ``file``, ``line`` and ``column`` are those of the first."""

    def __init__(self, message: str, mistakes: Sequence[tuple] = ()) -> None:
        super().__init__(message, mistakes)
        self.mistakes = [Mistake(*mistake) for mistake in mistakes]
        first = self.mistakes[0] if self.mistakes else None
        self.file = first.file if first else None
        self.line = first.line if first else None
        self.column = first.column if first else None

    def __str__(self) -> str:
        return str(self.args[0])
