"""The search for unknown values that match known figures, by SciPy's optimizers."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from longfat._scenario import PathLike, Scenario
from longfat._sweep import SweepPoint, sweep
from longfat.errors import BadInput, Error

__all__ = ["Fit", "Unknown", "fit"]


class Unknown(NamedTuple):
    """The range of an unknown value: numbers with a common unit, as in ``Unknown(10, 1000, "p")`` for a queue in packets."""

    low: float
    high: float
    unit: str = ""
    logarithmic: bool = False
    """Whether the search is on a logarithmic scale, for ranges over several powers of ten."""
    integer: bool = False

    def text(self, position: float) -> str:
        """The value at a position from 0 to 1."""
        if self.logarithmic:
            value = math.exp(math.log(self.low) + position * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + position * (self.high - self.low)
        # Six digits, so that positions close to each other share one run.
        return f"{round(value) if self.integer else float(f'{value:.6g}')}{self.unit}"


class Fit(NamedTuple):
    """The result of a search."""

    values: dict[str, str]
    """The best values."""
    error: float
    """Root mean square of the relative errors of the figures."""
    figures: dict[str, float]
    """The figures with the best values."""
    tried: list[tuple[dict[str, str], float]]
    """All tried values with their errors."""
    executed: int
    """Number of runs executed; others were stored or repeated."""


def fit(
    scenario: Union[Scenario, PathLike],
    unknowns: Mapping[str, Unknown],
    figures: Mapping[str, float],
    *,
    engine: str = "sim",
    variant: Optional[str] = None,
    repeat: int = 1,
    executor: Optional[Executor] = None,
    runs: Optional[PathLike] = None,
    population: int = 8,
    generations: int = 20,
    tolerance: float = 0.01,
    seed: int = 1,
    progress: Optional[Callable[[int, float], Any]] = None,
) -> Fit:
    """Searches for the values whose runs match figures best, by differential evolution (needs SciPy).

    :param unknowns: ranges by path, as in ``{"links.path.forward.queue": Unknown(10, 1000, "p", integer=True)}``.
    :param figures: wanted figures by flow and key of its summary, as in ``{"bulk.goodput_bps": 3e9, "bulk.max_rtt_us": 40e3}``.
    :param variant: the variant, if the scenario has several.
    :param executor: as for :func:`longfat.sweep`. The runs of a generation are parallel.
    :param population: tried values in a generation, for each unknown.
    :param tolerance: the search ends at this error.
    :param progress: called after each generation with its number and the smallest error so far.

    The search is deterministic.
    """
    from scipy.optimize import differential_evolution

    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if not unknowns or not figures:
        raise BadInput("fit needs unknowns and figures")
    if variant is None and len(scenario.variants) > 1:
        raise BadInput(f"the scenario has several variants: pass variant=, one of {', '.join(scenario.variants)}")
    if zeros := [name for name, wanted in figures.items() if wanted == 0]:
        raise BadInput(f"{zeros[0]}: a wanted figure is not zero, because errors are relative to it")
    if any(not (unknown.low < unknown.high and (unknown.low > 0 or not unknown.logarithmic)) for unknown in unknowns.values()):
        raise BadInput("low is below high, and above zero on a logarithmic scale")
    search = _Search(scenario, dict(unknowns), dict(figures), engine, variant, repeat, executor, runs)
    best = lambda: min(search.errors.values())
    generation = 0

    def after_generation(*_: Any, **__: Any) -> bool:
        nonlocal generation
        generation += 1
        if progress is not None:
            progress(generation, best())
        return best() <= tolerance

    try:
        differential_evolution(
            lambda positions: search.error(tuple(positions)),
            [(0.0, 1.0)] * len(unknowns),
            popsize=population,
            maxiter=generations,
            seed=seed,
            polish=False,
            updating="deferred",
            workers=search.map,
            callback=after_generation,
        )
    except RuntimeError as error:
        # SciPy replaces a ValueError of a run by its own error.
        if isinstance(error.__cause__, Error):
            raise error.__cause__ from None
        raise
    return search.result()


class _Search:
    def __init__(
        self,
        scenario: Scenario,
        unknowns: dict[str, Unknown],
        wanted: dict[str, float],
        engine: str,
        variant: Optional[str],
        repeat: int,
        executor: Optional[Executor],
        runs: Optional[PathLike],
    ) -> None:
        self.scenario, self.unknowns, self.wanted = scenario, unknowns, wanted
        self.options = {"engine": engine, "repeat": repeat, "executor": executor, "runs": runs}
        self.options["variants"] = [] if variant is None else [variant]
        self.errors: dict[tuple[str, ...], float] = {}
        self.found: dict[tuple[str, ...], dict[str, float]] = {}
        self.executed = 0

    def texts(self, positions: tuple[float, ...]) -> tuple[str, ...]:
        return tuple(unknown.text(position) for unknown, position in zip(self.unknowns.values(), positions))

    def map(self, _: Callable, positions: Any) -> list[float]:
        """The errors at several positions, whose runs are parallel: SciPy's ``workers``."""
        all_texts = [self.texts(tuple(one)) for one in positions]
        self.run([texts for texts in dict.fromkeys(all_texts) if texts not in self.errors])
        return [self.errors[texts] for texts in all_texts]

    def error(self, positions: tuple[float, ...]) -> float:
        return self.map(self.error, [positions])[0]

    def run(self, several: list[tuple[str, ...]]) -> None:
        if not several:
            return
        swept = sweep(self.scenario, [dict(zip(self.unknowns, texts)) for texts in several], **self.options)
        if len(swept) > len(several) * self.options["repeat"]:
            raise BadInput("the scenario sweeps fields that are not unknowns")
        points = swept.points
        self.executed += swept.executed
        count = len(points) // len(several)
        for number, texts in enumerate(several):
            own = points[number * count : (number + 1) * count]
            self.found[texts] = {name: _mean(own, name) for name in self.wanted}
            relative = [self.found[texts][name] / wanted - 1 for name, wanted in self.wanted.items()]
            self.errors[texts] = math.sqrt(sum(one * one for one in relative) / len(relative))

    def result(self) -> Fit:
        best = min(self.errors, key=self.errors.__getitem__)
        named = lambda texts: dict(zip(self.unknowns, texts))
        tried = [(named(texts), error) for texts, error in self.errors.items()]
        return Fit(named(best), self.errors[best], self.found[best], tried, self.executed)


def _mean(points: list[SweepPoint], name: str) -> float:
    flow, _, key = name.rpartition(".")
    values = [point.flow(flow or None).get(key) for point in points]
    if not all(isinstance(value, (int, float)) for value in values):
        raise BadInput(f"{name}: write FLOW.KEY with a figure of the flow's summary, as in bulk.goodput_bps")
    return sum(values) / len(values)
