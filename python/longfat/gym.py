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
from longfat.errors import BadInput

__all__ = ["OBSERVATION", "PACING_OBSERVATION", "PathEnv", "log_power"]

OBSERVATION = ("snd_cwnd_segs", "srtt_us", "min_rtt_us", "goodput_bps", "delivery_rate_bps", "unacked_segs", "total_retrans_segs")
"""Columns of an observation: a flow's series has their meanings (docs/record.md)."""

PACING_OBSERVATION = ("pacing_rate_bps", *OBSERVATION[1:])
"""Columns of an observation if the action changes the pacing rate."""

# Seeds of episodes are below this number.
_SEEDS = 2**53


def log_power(sample: Mapping[str, float]) -> float:
    """Kleinrock's power of a flow as a logarithm: doubling the goodput adds 1, doubling the round-trip time subtracts 1."""
    goodput_mbps, rtt, min_rtt = sample["goodput_bps"] / 1e6, sample["srtt_us"], sample["min_rtt_us"]
    delay = math.log2(rtt / min_rtt) if rtt > 0 and min_rtt > 0 else 0.0
    return math.log2(1 + goodput_mbps) - delay


class PathEnv(gymnasium.Env):
    """Controls the congestion window or the pacing rate of a TCP flow.

    Action: the binary logarithm of the factor by which the window or the rate changes, from -1 to 1. Observation: the columns
    :data:`OBSERVATION`, or :data:`PACING_OBSERVATION` with ``action="pacing"``, as numbers; absent ones are 0. Other flows of the
    scenario have their own congestion controls. An episode is truncated at the end of the scenario's duration.

    ``reset(seed=...)`` sets the seed of the episode's random losses, and seeds the environment's generator. ``reset()`` draws the
    seed of the next episode from this generator, so each episode has other losses and the sequence of episodes can be repeated.
    Without any seed, the first one is random, as in all environments of Gymnasium; the scenario's own seed is not used. The
    dictionary that ``reset`` returns has the episode's ``seed``.

    :param flow: the name of the controlled flow.
    :param action: ``cwnd``: the congestion window, without pacing; ``pacing``: the pacing rate, with a window of ``max_cwnd``.
    :param reward: the reward of a sample by column name.
    :param observation: columns of a flow's series in place of the usual ones.
    :param initial_cwnd: congestion window before the first action, segments.
    :param max_cwnd: maximum of the congestion window, segments.
    :param initial_pacing_bps: pacing rate of payload before the first action, bit/s.
    :param min_pacing_bps: minimum of the pacing rate, bit/s. At 100 kbit/s a segment of 1448 bytes takes 116 ms.
    :param max_pacing_bps: maximum of the pacing rate, bit/s.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        scenario: Scenario,
        flow: str,
        *,
        action: str = "cwnd",
        variant: Optional[str] = None,
        reward: Callable[[Mapping[str, float]], float] = log_power,
        observation: Optional[Sequence[str]] = None,
        initial_cwnd: int = 10,
        max_cwnd: int = 1_000_000,
        initial_pacing_bps: int = 1_000_000,
        min_pacing_bps: int = 100_000,
        max_pacing_bps: int = 1_000_000_000_000,
    ) -> None:
        if action not in ("cwnd", "pacing"):
            raise BadInput(f"there is no action {action!r}; there are cwnd and pacing")
        self._is_paced = action == "pacing"
        if observation is None:
            observation = PACING_OBSERVATION if self._is_paced else OBSERVATION
        self._scenario, self._flow, self._variant, self._reward = scenario, flow, variant, reward
        self._columns = tuple(dict.fromkeys((*observation, *OBSERVATION)))
        self._shown = len(tuple(dict.fromkeys(observation)))
        self._max_cwnd = max_cwnd
        # The value that actions change: bit/s or segments.
        if self._is_paced:
            self._initial, self._limits = initial_pacing_bps, (min_pacing_bps, max_pacing_bps)
        else:
            self._initial, self._limits = initial_cwnd, (1, max_cwnd)
        if not 1 <= self._limits[0] <= self._initial <= self._limits[1]:
            raise BadInput(f"the initial value {self._initial} is not from {self._limits[0]} to {self._limits[1]}")
        self._simulation: Optional[_native.Stepped] = None
        self._value = float(self._initial)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, (self._shown,), np.float64)

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[np.ndarray, dict]:
        """Begins an episode. Returns the observation of the flow's first sample, and a dictionary with ``time_s``, ``sample`` and
        the episode's ``seed``.

        :param seed: seed of this episode's random numbers; those of the next episodes follow from it. ``None``: drawn from the
            environment's generator.
        """
        super().reset(seed=seed)
        self.close()
        if seed is None:
            seed = int(self.np_random.integers(_SEEDS))
        scenario = self._scenario.with_(seed=seed)
        self._value = float(self._initial)
        self._simulation = _native.Stepped(
            scenario._native, self._variant, self._flow, list(self._columns), *self._control()
        )
        sample = self._simulation.sample()
        if sample is None:
            raise RuntimeError("the scenario ends before the flow's first sample")
        observation, info = self._result(sample)
        return observation, {**info, "seed": seed}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Changes the window or the rate, and simulates until the flow's next sample.

        Returns the observation, the reward, False (an episode never terminates), whether the scenario has ended, and the dictionary
        of :meth:`reset`.
        """
        if self._simulation is None:
            raise RuntimeError("call reset first")
        factor = 2.0 ** min(max(float(np.asarray(action).reshape(-1)[0]), -1.0), 1.0)
        self._value = min(max(self._value * factor, float(self._limits[0])), float(self._limits[1]))
        sample = self._simulation.step(*self._control())
        if sample is None:
            self.close()
            return self._last[0], 0.0, False, True, self._last[1]
        observation, info = self._result(sample)
        return observation, self._reward(info["sample"]), False, False, info

    def _control(self) -> tuple[int, Optional[int]]:
        """The congestion window in segments, and the pacing rate in bit/s or None."""
        value = round(self._value)
        return (self._max_cwnd, value) if self._is_paced else (value, None)

    def _result(self, sample: tuple[int, list[float]]) -> tuple[np.ndarray, dict]:
        time_us, cells = sample
        values = np.nan_to_num(np.asarray(cells, np.float64))
        info = {"time_s": time_us / 1e6, "sample": dict(zip(self._columns, values.tolist()))}
        self._last = values[: self._shown], info
        return self._last

    def close(self) -> None:
        """Ends the simulation."""
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None
