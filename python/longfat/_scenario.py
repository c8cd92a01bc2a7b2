"""Scenarios: from files, from texts, from figures of a path, or from dataclasses (``_parts``)."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from longfat import _native, _toml

if TYPE_CHECKING:
    from longfat._parts import Flow, Host, Link

__all__ = ["Scenario", "built_in"]

PathLike = Union[str, "os.PathLike[str]"]


class Scenario:
    """An experiment: hosts, links, flows and variants. It is immutable and can be pickled.

    Create one with :meth:`load`, :meth:`from_text`, :meth:`path` or :meth:`of`.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Scenario) -> None:
        self._native = native

    @classmethod
    def load(cls, path: PathLike) -> Scenario:
        """Reads a scenario file, or the built-in scenario of this name (see :func:`built_in`)."""
        return cls(_native.Scenario.load(os.fspath(path)))

    @classmethod
    def from_text(cls, text: str, name: str = "scenario") -> Scenario:
        """Parses the text of a scenario file. Files that it names are relative to the working directory."""
        return cls(_native.Scenario.parse(name if name.endswith(".toml") else f"{name}.toml", text))

    @classmethod
    def path(
        cls,
        rate: str,
        rtt: str,
        *,
        queue: Optional[str] = None,
        loss: Optional[str] = None,
        cc: Union[str, Sequence[str]] = (),
        flows: int = 1,
        duration: Optional[str] = None,
        mtu: int = 1500,
    ) -> Scenario:
        """Two hosts and one link, as ``longfat run --rate RATE --rtt RTT``. Several congestion controls are variants."""
        ccs = [cc] if isinstance(cc, str) else list(cc)
        name, text = _native.Scenario.path_text(rate, rtt, queue, loss, ccs, flows, duration, mtu)
        return cls.from_text(text, name)

    @classmethod
    def of(
        cls,
        *,
        hosts: Mapping[str, Host],
        links: Sequence[Link],
        flows: Sequence[Flow],
        switches: Sequence[str] = (),
        name: str = "scenario",
        **keys: Any,
    ) -> Scenario:
        """A scenario from dataclasses. ``keys`` are further keys of the file, as in ``duration="20s"``."""
        table: dict[str, Any] = {**keys, "hosts": hosts}
        if switches:
            table["switches"] = {"names": list(switches)}
        return cls.from_text(_toml.document({**table, "links": links, "flows": flows}), name)

    def with_(self, changes: Optional[Mapping[str, Any]] = None, /, **fields: Any) -> Scenario:
        """A copy with changed values.

        Paths are dotted as after ``longfat run --set``, or mappings as in the file::

            scenario.with_({"flows.bulk.cc": "reno"}, duration="5s")
            scenario.with_(links={"s1-s2": {"forward": Direction(delay="50ms")}})

        A text is TOML if it can be read as TOML, as after ``--set``.
        """
        sets = list(_toml.changes({**(changes or {}), **fields}))
        return Scenario(self._native.with_sets(sets))

    def with_kernel(self, kernel: Optional[str]) -> Scenario:
        """A copy whose hosts have this Linux version in the simulator, with its default buffers. Without a version they have
        the kernel and the settings of the machine that simulates."""
        return Scenario(self._native.with_kernel(kernel))

    @property
    def name(self) -> str:
        """The file's name without ``.toml``."""
        return self._native.name

    @property
    def title(self) -> str:
        """The title in one line."""
        return self._native.title

    @property
    def text(self) -> str:
        """The text of the file, without changes of :meth:`with_`."""
        return self._native.text

    @property
    def variants(self) -> list[str]:
        """Names of the variants."""
        return self._native.variants

    @property
    def changes(self) -> dict[str, str]:
        """Values that :meth:`with_` has changed."""
        return dict(self._native.sets)

    def to_toml(self, variant: Optional[str] = None) -> str:
        """The text of a scenario file with all defaults and changes."""
        return self._native.resolved(variant)

    def __reduce__(self) -> tuple:
        native = self._native
        return _rebuild, (os.fspath(native.path), native.text, tuple(native.sets), native.kernel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.__reduce__()[1] == other.__reduce__()[1]

    def __hash__(self) -> int:
        return hash(self.__reduce__()[1])

    def __repr__(self) -> str:
        changed = "".join(f", {path}={value}" for path, value in self._native.sets)
        return f"<longfat.Scenario {self.name}: {self.title}{changed}>"


@lru_cache(maxsize=16)
def _rebuild(path: str, text: str, sets: tuple[tuple[str, str], ...], kernel: Optional[str]) -> Scenario:
    """A scenario from a pickle. Workers parse a scenario once, not for each task."""
    scenario = Scenario(_native.Scenario.parse(path, text))
    if kernel is not None:
        scenario = scenario.with_kernel(kernel)
    return Scenario(scenario._native.with_sets(list(sets))) if sets else scenario


def built_in() -> dict[str, str]:
    """Names and titles of the scenarios that the package contains."""
    return dict(_native.built_in_scenarios())
