"""A Gymnasium environment: a policy in place of a congestion control, in the simulator.

Needs gymnasium and NumPy. One step is one sample of the flow (``scenario.with_(sample="20ms")`` changes its length).
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Optional, Sequence

import gymnasium
import numpy as np

from longfat import _native
from longfat._scenario import Scenario

__all__ = ["OBSERVATION", "PathEnv", "log_power"]

OBSERVATION = ("snd_cwnd_segs", "srtt_us", "min_rtt_us", "goodput_bps", "delivery_rate_bps", "unacked_segs", "total_retrans_segs")
"""Columns of an observation: a flow's series has their meanings (docs/record.md)."""


def log_power(sample: Mapping[str, float]) -> float:
    """Kleinrock's power of a flow as a logarithm: doubling the goodput adds 1, doubling the round-trip time subtracts 1."""
    goodput_mbps, rtt, min_rtt = sample["goodput_bps"] / 1e6, sample["srtt_us"], sample["min_rtt_us"]
    delay = math.log2(rtt / min_rtt) if rtt > 0 and min_rtt > 0 else 0.0
    return math.log2(1 + goodput_mbps) - delay


class PathEnv(gymnasium.Env):
    """Controls the congestion window of a TCP flow.

    Action: the binary logarithm of the factor by which the window changes, from -1 to 1. Observation: the columns
    :data:`OBSERVATION` as numbers; absent ones are 0. Other flows of the scenario have their own congestion controls. An episode
    is truncated at the end of the scenario's duration. ``reset(seed=...)`` sets the seed of the scenario's random losses.

    :param flow: the name of the controlled flow.
    :param reward: the reward of a sample by column name.
    :param initial_cwnd: congestion window before the first action, segments.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        scenario: Scenario,
        flow: str,
        *,
        variant: Optional[str] = None,
        reward: Callable[[Mapping[str, float]], float] = log_power,
        observation: Sequence[str] = OBSERVATION,
        initial_cwnd: int = 10,
        max_cwnd: int = 1_000_000,
    ) -> None:
        self._scenario, self._flow, self._variant, self._reward = scenario, flow, variant, reward
        self._columns = tuple(dict.fromkeys((*observation, *OBSERVATION)))
        self._shown = len(tuple(dict.fromkeys(observation)))
        self._initial, self._largest = initial_cwnd, max_cwnd
        self._simulation: Optional[_native.Stepped] = None
        self._cwnd = float(initial_cwnd)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, (self._shown,), np.float64)

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.close()
        scenario = self._scenario if seed is None else self._scenario.with_(seed=seed)
        self._cwnd = float(self._initial)
        self._simulation = _native.Stepped(scenario._native, self._variant, self._flow, list(self._columns), self._initial)
        sample = self._simulation.sample()
        if sample is None:
            raise RuntimeError("the scenario ends before the flow's first sample")
        return self._result(sample)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self._simulation is None:
            raise RuntimeError("call reset first")
        factor = 2.0 ** min(max(float(np.asarray(action).reshape(-1)[0]), -1.0), 1.0)
        self._cwnd = min(max(self._cwnd * factor, 1.0), float(self._largest))
        sample = self._simulation.step(round(self._cwnd), None)
        if sample is None:
            self.close()
            return self._last[0], 0.0, False, True, self._last[1]
        observation, info = self._result(sample)
        return observation, self._reward(info["sample"]), False, False, info

    def _result(self, sample: tuple[int, list[float]]) -> tuple[np.ndarray, dict]:
        time_us, cells = sample
        values = np.nan_to_num(np.asarray(cells, np.float64))
        info = {"time_s": time_us / 1e6, "sample": dict(zip(self._columns, values.tolist()))}
        self._last = values[: self._shown], info
        return self._last

    def close(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None
