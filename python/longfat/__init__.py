"""longfat: a workbench for TCP on long fat networks.

>>> import longfat
>>> scenario = longfat.Scenario.path(rate="1gbit", rtt="50ms", duration="5s")
>>> run = longfat.run(scenario, engine="model")
>>> print(run.verdict)
path_rate
"""

from typing import TYPE_CHECKING

from longfat import errors
from longfat._bdp import PathFigures, bdp
from longfat._native import __version__
from longfat._run import Comparison, Plot, Run, Table, Verdict, compare, open, run
from longfat._scenario import Scenario, built_in
from longfat.errors import BadInput, Error, Missing, Mistake, ScenarioError

__all__ = [
    "Agent",
    "AgentError",
    "BadInput",
    "Comparison",
    "Direction",
    "Error",
    "Fit",
    "Flow",
    "Host",
    "Link",
    "Missing",
    "Mistake",
    "PathFigures",
    "Plot",
    "Run",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "SweepPoint",
    "Table",
    "Unknown",
    "Verdict",
    "__version__",
    "agent",
    "bdp",
    "built_in",
    "cc",
    "compare",
    "errors",
    "executors",
    "fit",
    "open",
    "run",
    "sweep",
]

# These modules are loaded on first use, because they import dataclasses, concurrent.futures,
# subprocess and other libraries.
_LAZY = {
    "Agent": "agent",
    "AgentError": "agent",
    "Direction": "_parts",
    "Fit": "_fit",
    "Flow": "_parts",
    "Host": "_parts",
    "Link": "_parts",
    "Sweep": "_sweep",
    "SweepPoint": "_sweep",
    "Unknown": "_fit",
    "agent": "agent",
    "cc": "cc",
    "executors": "executors",
    "fit": "_fit",
    "gym": "gym",
    "sweep": "_sweep",
}


if TYPE_CHECKING:
    from longfat import agent, cc, executors, gym
    from longfat._fit import Fit, Unknown, fit
    from longfat._parts import Direction, Flow, Host, Link
    from longfat._sweep import Sweep, SweepPoint, sweep
    from longfat.agent import Agent, AgentError


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'longfat' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"longfat.{_LAZY[name]}")
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list:
    return sorted(__all__)
