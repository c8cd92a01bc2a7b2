"""Closed forms of a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Iterator, NamedTuple, Optional

from longfat import _native

__all__ = ["Figure", "PathFigures", "bdp"]


class Figure(NamedTuple):
    """A figure with its explanation."""

    value: float
    """In the unit of its key's suffix: bytes, microseconds, bit/s."""
    name: str
    text: str
    """The value as text with its unit."""
    sentence: str
    """The formula or the reason."""
    group: str


class PathFigures(Mapping):
    """The figures of a path by their keys, as in ``bdp_bytes``; each is a number. ``figures`` has explanations."""

    def __init__(self, figures: dict[str, Figure]) -> None:
        self.figures = figures

    def __getitem__(self, key: str) -> float:
        return self.figures[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def __repr__(self) -> str:
        return "\n".join(f"{key:32} {figure.text}" for key, figure in self.figures.items())


def bdp(
    rate: str,
    rtt: str,
    *,
    mtu: int = 1500,
    mss: Optional[int] = None,
    ipv6: bool = False,
    overhead: int = 38,
    loss: Optional[str] = None,
    window: Optional[str] = None,
    buffer: Optional[str] = None,
    queue: Optional[str] = None,
    kernel: Optional[str] = None,
) -> PathFigures:
    """All closed forms of a path, as computed by ``longfat bdp``: windows, buffers, losses, recovery times.

    >>> longfat.bdp("10gbit", "50ms")["bdp_bytes"]
    62500000.0
    """
    found = _native.bdp(rate, rtt, mtu, mss, ipv6, overhead, loss, window, buffer, queue, kernel)
    return PathFigures({key: Figure(*rest) for key, *rest in found})
