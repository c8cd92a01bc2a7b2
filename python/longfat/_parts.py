"""Parts of scenarios as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

__all__ = ["Direction", "Flow", "Host", "Link"]


@dataclass
class Host:
    """A host. ``more`` has further keys of docs/scenario.md, as in ``{"turnaround": "20us"}``."""

    address: str
    """Its address with the prefix length, as in ``10.0.0.1/8``."""
    mtu: Optional[int] = None
    sysctl: Optional[Mapping[str, Union[str, int]]] = None
    kernel: Optional[str] = None
    """Linux version in the simulator, as in ``6.1``."""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Direction:
    """One direction of a link. Values are written with their units, as in ``rate="10gbit"``."""

    rate: Optional[str] = None
    delay: Optional[str] = None
    queue: Optional[str] = None
    loss: Optional[Union[str, float, Mapping[str, Any]]] = None
    qdisc: Optional[Union[str, Mapping[str, Any]]] = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Link:
    """A link between two hosts, switches or routers. ``both`` is for both directions."""

    ends: Sequence[str]
    forward: Optional[Direction] = None
    backward: Optional[Direction] = None
    both: Optional[Direction] = None
    name: Optional[str] = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Flow:
    """Traffic from one host to another."""

    name: str
    from_: str
    to: str
    kind: Optional[str] = None
    """``tcp`` (the default), ``ping``, ``udp``, ``udt``, ``tsunami``, ``stream``, ``quic`` or ``xcp``."""
    cc: Optional[Union[str, Mapping[str, Any]]] = None
    size: Optional[str] = None
    start: Optional[str] = None
    stop: Optional[str] = None
    rate: Optional[str] = None
    send_buffer: Optional[str] = None
    receive_buffer: Optional[str] = None
    more: Mapping[str, Any] = field(default_factory=dict)
