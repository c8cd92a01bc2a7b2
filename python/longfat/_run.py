"""Runs and their results."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from longfat import _native
from longfat._scenario import PathLike, Scenario
from longfat.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Comparison", "Plot", "Run", "Table", "Verdict", "compare", "open", "run"]

Progress = Callable[[float, float], Any]



class Table:
    """A series. pyarrow, pandas, polars and DuckDB read it without a copy (Arrow PyCapsule interface)::

        pyarrow.table(run.flows)
        polars.DataFrame(run.flows)
        duckdb.sql("select avg(srtt_us) from flows")     # after flows = pyarrow.table(run.flows)
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns and their meanings."""
        return dict(self._native.columns)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` (needs pyarrow)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<longfat.Table of {len(self)} rows and {len(self._native.columns)} columns>"


class Verdict(str):
    """What limited a flow, as in ``"receive_window"``, with the evidence and the remedy."""

    also: Optional[str]
    """A second limit, if there is one."""
    evidence: list[str]
    """Sentences with the figures behind the verdict."""
    remedy: Optional[str]
    """What to change, if that is known."""
    limited: dict[str, float]
    """Shares of the time that each limit applied."""

    @classmethod
    def of(cls, flow: Mapping[str, Any]) -> Optional[Verdict]:
        """The verdict in a flow's summary; ``None`` for flows without one."""
        if flow.get("verdict") is None:
            return None
        verdict = cls(flow["verdict"])
        verdict.also = flow.get("verdict_also")
        verdict.evidence = list(flow.get("evidence") or [])
        verdict.remedy = flow.get("remedy")
        verdict.limited = dict(flow.get("limited") or {})
        return verdict


class Plot:
    """A picture. Jupyter shows it; ``svg`` is its text."""

    __slots__ = ("svg",)

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: PathLike) -> None:
        """Writes the SVG file."""
        from pathlib import Path

        Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<longfat.Plot of {len(self.svg)} bytes>"


class Run:
    """One run: its summary and its series."""

    __slots__ = ("_native", "_summary", "_tables")

    def __init__(self, native: _native.Run) -> None:
        self._native = native
        self._summary: Optional[dict[str, Any]] = None
        self._tables: dict[str, Table] = {}

    @property
    def summary(self) -> dict[str, Any]:
        """The summary as in ``longfat.summary/1``."""
        if self._summary is None:
            self._summary = json.loads(self._native.summary_json())
        return self._summary

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = Table(self._native.table(name))
        return self._tables[name]

    @property
    def flows(self) -> Table:
        """Samples of the flows: congestion window, round-trip time and more, with the limit of each interval."""
        return self._table("flows")

    @property
    def links(self) -> Table:
        """Samples of the links: rate, queue, drops."""
        return self._table("links")

    @property
    def events(self) -> Table:
        """Losses, retransmissions and state changes."""
        return self._table("events")

    def flow(self, name: Optional[str] = None) -> dict[str, Any]:
        """A flow's summary; without a name that of the first TCP flow, else of the first flow."""
        flows = self.summary["flows"]
        if name is None:
            tcp = (flow for flow in flows if flow["kind"] == "tcp")
            found = next(tcp, flows[0] if flows else None)
        else:
            found = next((flow for flow in flows if flow["name"] == name), None)
        if found is None:
            names = ", ".join(flow["name"] for flow in flows)
            raise BadInput(f"there is no flow {name!r}; there are {names}" if name else "the run has no flows")
        return found

    @property
    def goodput_bps(self) -> Optional[float]:
        """The goodput of :meth:`flow`, bit/s."""
        return self.flow().get("goodput_bps")

    @property
    def verdict(self) -> Optional[Verdict]:
        """What limited :meth:`flow`."""
        return Verdict.of(self.flow())

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """What limited each flow, by its name."""
        found = ((flow["name"], Verdict.of(flow)) for flow in self.summary["flows"])
        return {name: verdict for name, verdict in found if verdict is not None}

    @property
    def path(self) -> Optional[Path]:
        """The record's directory; ``None`` without a record."""
        return self._native.path

    @property
    def partial(self) -> bool:
        """Whether the run was ended early."""
        return self._native.partial

    @property
    def scenario_toml(self) -> str:
        """The scenario as it was run."""
        return self._native.scenario_toml

    def plot(
        self,
        metrics: Union[str, Sequence[str]] = ("goodput", "cwnd", "rtt"),
        *,
        against: Optional[str] = None,
        title: Optional[str] = None,
        width: int = 960,
        panel_height: int = 150,
        span_s: Optional[tuple[float, float]] = None,
    ) -> Plot:
        """Metrics over time (or against another metric) as ``longfat plot`` draws them. Names of columns are metrics too."""
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        return Plot(self._native.plot(names, against, title, width, panel_height, span_s))

    def __repr__(self) -> str:
        summary = self.summary
        variant = f" {summary['variant']}" if summary.get("variant") else ""
        flows = (
            f"{flow['name']} {flow['goodput_bps'] / 1e6:.1f} Mb/s"
            + (f" ({flow['verdict']})" if flow.get("verdict") else "")
            for flow in summary["flows"]
            if flow.get("goodput_bps") is not None
        )
        return f"<longfat.Run {self._native.scenario}{variant} {summary['engine']}: {', '.join(flows)}>"


# Engines that simulate or compute the kernel of Scenario.with_kernel.
_WITH_KERNEL = ("sim", "model")
# The addresses of object stores.
_STORE = "s3://"


def run(
    scenario: Union[Scenario, PathLike],
    engine: str = "sim",
    *,
    variant: Optional[str] = None,
    seed: Optional[int] = None,
    progress: Optional[Progress] = None,
    runs: Optional[PathLike] = None,
) -> Run:
    """Runs a scenario once.

    :param scenario: a scenario, or what :meth:`Scenario.load` takes.
    :param engine: ``sim`` (the simulator), ``model`` (closed forms, without series), ``lab`` (this machine's kernel), ``kernel``
        or ``kernel:VERSION`` (a guest kernel). The last two are run by the program.
    :param variant: the scenario's variant; necessary if it has several.
    :param seed: seed of the random numbers, instead of the scenario's.
    :param progress: called a few times a second with the elapsed and the total seconds of the run's own time (``sim``).
    :param runs: directory of records, or an object store, as in ``s3://bucket/prefix``, to which the program writes; without it the
        run leaves no files.

    The interpreter lock is released. Ctrl-C ends the run.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if seed is not None:
        scenario = scenario.with_(seed=seed)
    runs_dir = None if runs is None else os.fspath(runs)
    is_in_store = runs_dir is not None and runs_dir.startswith(_STORE)
    if is_in_store and progress is not None:
        raise BadInput("progress= is not possible with an object store, to which the program writes the record")
    if is_in_store or engine in ("lab", "kernel") or engine.startswith("kernel:"):
        return _run_by_program(scenario, engine, variant, runs_dir)
    return Run(_native.run(scenario._native, engine, variant, progress, runs_dir))


def _run_by_program(scenario: Scenario, engine: str, variant: Optional[str], runs: Optional[PathLike]) -> Run:
    """Runs the only selected run by the program. A selection of several runs is refused before any of them is executed."""
    import tempfile
    from pathlib import Path

    from longfat._program import run_json

    if variant is None and len(scenario.variants) > 1:
        raise BadInput(f"the scenario has several variants: pass variant=, one of {', '.join(scenario.variants)}")
    if scenario._native.points > 1:
        raise BadInput("the scenario sweeps fields: use longfat.sweep")
    if "," in engine or engine == "all":
        raise BadInput(f"engine {engine}: run takes one engine")
    with tempfile.TemporaryDirectory(prefix="longfat-") as folder:
        path = Path(scenario._native.path)
        if not path.is_file() or path.read_text(encoding="utf-8") != scenario.text:
            path = _file_of_text(scenario, Path(folder, "scenario"))
        runs_dir = os.fspath(runs) if runs is not None else folder
        arguments = ["--runs", runs_dir, "run", str(path), "--engine", engine, "--repeat", "1"]
        arguments += [] if variant is None else ["--variant", variant]
        if scenario._native.kernel is not None and engine in _WITH_KERNEL:
            arguments += ["--kernel", scenario._native.kernel]
        for name, value in scenario.changes.items():
            arguments += ["--set", f"{name}={value}"]
        # 3: a published figure was missed.
        summary = run_json(arguments, accepted=(0, 3))
        record = summary["runs"][0]["record"]
        return open(record, runs_dir) if runs is not None else Run(_native.read_run(record))


def _file_of_text(scenario: Scenario, folder: Path) -> Path:
    """Writes a scenario's text to a file in the new directory `folder`, beside links to the files that it can name: congestion
    controls are relative to its directory."""
    from pathlib import Path

    folder.mkdir()
    file = folder / f"{scenario.name}.toml"
    for entry in Path(scenario._native.path).absolute().parent.iterdir():
        if entry.name != file.name:
            (folder / entry.name).symlink_to(entry)
    file.write_text(scenario.text, encoding="utf-8")
    return file


def open(key: PathLike = "last", runs: PathLike = "runs") -> Run:
    """Opens a record.

    :param key: its directory, or how the program names it: ``last``, ``lab8/last``, an id; of an object store also its address,
        as in ``s3://bucket/prefix/lab8/run=ID``.
    :param runs: the directory of records, or an object store, as in ``s3://bucket/prefix``. The program fetches the record.
    """
    key, runs = os.fspath(key), os.fspath(runs)
    if key.startswith(_STORE):
        key = key.rstrip("/")
        runs = key.rsplit("/", 2)[0]
    if runs.startswith(_STORE):
        from longfat._program import run_json

        key = run_json(["--runs", runs, "export", "record", key])["directory"]
    return Run(_native.open_run(os.fspath(key), os.fspath(runs)))


class Comparison:
    """Two runs metric by metric, as ``longfat compare`` shows them."""

    __slots__ = ("document",)

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        """The document, ``longfat.compare/1``."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A mapping for each flow and metric: ``flow``, ``metric``, ``a``, ``b``, ``ratio``."""
        return [
            {"flow": flow["name"], **metric} for flow in self.document["flows"] for metric in flow["metrics"]
        ]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(self.rows)

    def __repr__(self) -> str:
        return f"<longfat.Comparison of {len(self.rows)} metrics>"


def compare(a: Run, b: Run) -> Comparison:
    """Compares two runs flow by flow and metric by metric."""
    return Comparison(json.loads(_native.compare(a._native, b._native)))
