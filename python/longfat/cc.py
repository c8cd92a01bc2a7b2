"""Congestion controls in C, which run in the simulator and in the kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from longfat._program import run_json
from longfat._scenario import PathLike

__all__ = ["Check", "Step", "check"]


class Step(NamedTuple):
    """A step of a check."""

    name: str
    state: str
    """``ok``, ``failed``, or ``missing`` if this machine lacks a privilege or feature."""
    found: str
    details: Any


class Check(NamedTuple):
    """The result of a check. It is true if no step failed."""

    name: str
    steps: list[Step]

    def __bool__(self) -> bool:
        return all(step.state != "failed" for step in self.steps)

    @property
    def missing(self) -> list[Step]:
        """Steps that this machine cannot run."""
        return [step for step in self.steps if step.state == "missing"]


def check(path: PathLike) -> Check:
    """Builds a congestion control natively and for the kernel, has the kernel verify it, and runs it in both.

    :param path: a C file, or the name of a congestion control of longfat.
    """
    # 1: a step failed; 4: this machine cannot run a step.
    document = run_json(["cc", "check", str(path)], accepted=(0, 1, 4))
    steps = [Step(one["step"], one["state"], one["found"], one["details"]) for one in document["steps"]]
    return Check(document["name"], steps)
