"""Sweeps on any ``concurrent.futures.Executor``."""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from longfat import _native, _toml
from longfat._run import Table, Verdict
from longfat._scenario import PathLike, Scenario
from longfat.errors import BadInput, Error

__all__ = ["Sweep", "SweepPoint", "sweep"]

# Tasks of a sweep: sufficiently many for workers to end at about the same time.
_TASKS = 64
# Maximum number of runs in a task; they are lost together with a worker.
_MAX_CHUNK = 50

# A run of a sweep as workers receive it: index, variant, values, repeat.
_Planned = tuple[int, Optional[str], tuple[tuple[str, str], ...], int]


# Values by path, of which all combinations are run; or a list of points.
Over = Union[Mapping[str, Sequence[Any]], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep."""

    index: int
    """Its position in the sweep, from 0."""
    address: str
    """The hash of everything that determines its result."""
    variant: Optional[str]
    values: Mapping[str, str]
    """The swept fields and their values."""
    repeat: int
    """The number of the repeat, from 1."""
    seed: int
    document: str = field(repr=False)
    """The result as stored, ``longfat.point/1``; equal addresses have equal documents."""
    is_stored: bool = field(default=False, repr=False)
    """Whether the result was stored before this sweep began."""

    @property
    def summary(self) -> dict[str, Any]:
        """The run's summary, as :attr:`longfat.Run.summary`."""
        return json.loads(self.document)["run"]

    def flow(self, name: Optional[str] = None) -> dict[str, Any]:
        """A flow's summary; without a name that of the first flow."""
        flows = self.summary["flows"]
        found = next((flow for flow in flows if name in (None, flow["name"])), None)
        if found is None:
            raise BadInput(f"there is no flow {name!r}; there are {', '.join(flow['name'] for flow in flows)}")
        return found

    @property
    def goodput_bps(self) -> Optional[float]:
        """The goodput of the first flow, bit/s."""
        return self.flow().get("goodput_bps")

    @property
    def verdict(self) -> Optional[Verdict]:
        """What limited the first flow."""
        return Verdict.of(self.flow())


class Sweep:
    """A sweep. Iterate over it to receive each :class:`SweepPoint` when it is done; other methods wait for all of them."""

    def __init__(
        self,
        scenario: Scenario,
        over: Over,
        engine: str,
        variants: Sequence[str],
        repeat: Optional[int],
        executor: Optional[Executor],
        runs: Optional[str],
        chunk: Optional[int],
        progress: Optional[Callable[[int, int], Any]],
    ) -> None:
        self._scenario, self._engine, self._executor = scenario, engine, executor
        self._runs, self._chunk, self._progress = runs, chunk, progress
        grids = [over] if isinstance(over, Mapping) else [{path: [value] for path, value in one.items()} for one in over]
        self._plan: list[tuple[str, Optional[str], list[tuple[str, str]], int, int]] = []
        for grid in grids:
            for path, several in grid.items():
                # Its characters would be the values.
                if isinstance(several, str):
                    raise BadInput(f"{path}: pass a list of values, as in [{several!r}]")
            values = [(path, [_toml.text(value) for value in several]) for path, several in grid.items()]
            self._plan += _native.plan(scenario._native, values, engine, list(variants), repeat)
        self._done: dict[int, SweepPoint] = {}
        self.executed = 0
        """Number of runs that this sweep has executed; the others were stored."""

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[SweepPoint]:
        yield from list(self._done.values())
        missing = [index for index in range(len(self._plan)) if index not in self._done]
        if self._runs is not None:
            for index in missing:
                document = _native.stored_point(self._runs, self._plan[index][0])
                if document is not None:
                    yield self._finish(index, document, is_stored=True)
        # Runs with the same address are executed once.
        first_of: dict[str, list[int]] = {}
        for index in missing:
            if index not in self._done:
                first_of.setdefault(self._plan[index][0], []).append(index)
        for index, document in self._execute([indices[0] for indices in first_of.values()]):
            self.executed += 1
            if self._runs is not None:
                _native.store_point(self._runs, document)
            for same in first_of[self._plan[index][0]]:
                yield self._finish(same, document, is_stored=False)

    def _finish(self, index: int, document: str, is_stored: bool) -> SweepPoint:
        address, variant, values, repeat, seed = self._plan[index]
        point = SweepPoint(index, address, variant, dict(values), repeat, seed, document, is_stored)
        self._done[index] = point
        if self._progress is not None:
            self._progress(len(self._done), len(self._plan))
        return point

    def _execute(self, indices: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Executes runs and yields their documents as they arrive."""
        if not indices:
            return
        size = self._chunk or max(1, min(_MAX_CHUNK, math.ceil(len(indices) / _TASKS)))
        planned: list[_Planned] = []
        for index in indices:
            _, variant, values, repeat, _ = self._plan[index]
            planned.append((index, variant, tuple(values), repeat))
        chunks = [planned[start : start + size] for start in range(0, len(planned), size)]
        own = self._executor is None
        # Threads share the flag; workers in other processes end with their executor.
        stop = _native.Stop() if own else None
        executor = ThreadPoolExecutor(os.cpu_count()) if own else self._executor
        futures: list[Future] = []
        try:
            for chunk in chunks:
                task = (_run_chunk, self._scenario, self._engine, chunk)
                futures.append(executor.submit(*task, stop) if own else executor.submit(*task))
            lost: Optional[Exception] = None
            for future in as_completed(futures):
                try:
                    done = future.result()
                except Error:
                    raise
                except Exception as error:
                    # A worker is lost, but not the results of the others.
                    lost = lost or error
                    continue
                for index, address, document in done:
                    self._check_address(index, address)
                    yield index, document
            if lost is not None:
                raise lost
        finally:
            for future in futures:
                future.cancel()
            if own:
                stop.set()
                executor.shutdown(wait=True)

    def _check_address(self, index: int, address: str) -> None:
        if address != self._plan[index][0]:
            raise Error(
                "a worker's longfat or machine differs from this one, so that its results would differ: use the same version, "
                "and Scenario.with_kernel, so that the machines' kernels and settings have no effect"
            )

    def run(self) -> Sweep:
        """Executes all runs that are not stored."""
        for _ in self:
            pass
        return self

    @property
    def points(self) -> list[SweepPoint]:
        """All runs in the order of the sweep."""
        self.run()
        return [self._done[index] for index in range(len(self._plan))]

    @property
    def table(self) -> Table:
        """A row for each run and flow: swept values and figures, in SI units (``min_rtt_s``); nested ones dotted
        (``limited.loss``)."""
        rows = [row for point in self.points for row in _rows(point)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = []
        for name in names:
            cells = [row.get(name) for row in rows]
            if any(isinstance(cell, str) for cell in cells):
                columns.append((name, [None if cell is None else str(cell) for cell in cells]))
            else:
                columns.append((name, [None if cell is None else float(cell) for cell in cells]))
        return Table(_native.table(columns))

    def to_pandas(self) -> Any:
        """:attr:`table` as a ``pandas.DataFrame`` (needs pyarrow)."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """:attr:`table` as a ``polars.DataFrame``."""
        return self.table.to_polars()

    def __repr__(self) -> str:
        return f"<longfat.Sweep of {len(self)} runs of {self._scenario.name}, {len(self._done)} done>"


def _rows(point: SweepPoint) -> Iterator[dict[str, Any]]:
    # Larger integers are not exact as the floating-point numbers of a table.
    seed = point.seed if point.seed <= 2**53 else str(point.seed)
    own = {"variant": point.variant, **point.values, "repeat": point.repeat, "seed": seed}
    own["address"] = point.address
    for flow in point.summary["flows"]:
        cells: dict[str, Any] = {}
        _flatten("", flow, cells)
        yield {**{name: value for name, value in own.items() if value is not None}, "flow": cells.pop("name"), **cells}


def _flatten(path: str, value: Any, cells: dict[str, Any]) -> None:
    """The figures and names within a summary; sentences are omitted."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in ("evidence", "remedy"):
                _flatten(f"{path}.{name}" if path else name, item, cells)
    elif path.endswith("_us") and isinstance(value, (int, float)):
        cells[f"{path[:-3]}_s"] = value / 1e6
    elif isinstance(value, (bool, int, float, str)):
        cells[path] = value


def _run_chunk(
    scenario: Scenario, engine: str, chunk: Sequence[_Planned], stop: Optional[_native.Stop] = None
) -> list[tuple[int, str, str]]:
    """Executes some runs of a sweep: the task of workers."""
    done = []
    for index, variant, values, repeat in chunk:
        address, document = _native.run_point(scenario._native, engine, variant, list(values), repeat, stop)
        done.append((index, address, document))
    return done


def sweep(
    scenario: Union[Scenario, PathLike],
    over: Optional[Over] = None,
    *,
    engine: str = "sim",
    variants: Sequence[str] = (),
    repeat: Optional[int] = None,
    executor: Optional[Executor] = None,
    runs: Optional[PathLike] = "runs",
    chunk: Optional[int] = None,
    progress: Optional[Callable[[int, int], Any]] = None,
) -> Sweep:
    """A scenario over all combinations of values.

    :param over: values by path, as in ``{"links.path.both.delay": ["10ms", "50ms"], "flows.bulk.cc": ["cubic", "bbr"]}``; or a
        list of points, each with a value by path.
    :param engine: ``sim`` or ``model``.
    :param variants: only these variants; empty: all.
    :param repeat: runs of each point, each with the next seed; ``None``: as the scenario states.
    :param executor: runs the points; ``None``: a thread for each processor. Any ``concurrent.futures.Executor``, also of other
        machines: see :mod:`longfat.executors`.
    :param runs: results are stored in the directory ``.points`` below it, as those of ``longfat sweep --shard``. Stored runs are
        not executed again. ``None``: nothing is stored.
    :param chunk: maximum number of runs in one task of the executor.
    :param progress: called with the number of finished runs and of all.

    The call checks all points. Runs start when the sweep is iterated over, or its results are requested.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if chunk is not None and chunk < 1:
        raise BadInput("chunk is at least 1")
    if repeat is not None and repeat < 1:
        raise BadInput("repeat is at least 1")
    runs_dir = None if runs is None else os.fspath(runs)
    if runs_dir is not None and runs_dir.startswith("s3://"):
        raise BadInput(f"runs= must be a directory, not {runs_dir}: `longfat sweep --shard` stores results in an object store")
    return Sweep(scenario, {} if over is None else over, engine, variants, repeat, executor, runs_dir, chunk, progress)
