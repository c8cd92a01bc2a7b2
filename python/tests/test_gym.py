import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import longfat

gymnasium = pytest.importorskip("gymnasium")


def env(**more):
    from longfat.gym import PathEnv

    scenario = longfat.Scenario.path("100mbit", "20ms", duration="1s").with_(sample="20ms")
    return PathEnv(scenario, scenario_flow(scenario), **more)


def scenario_flow(scenario):
    return longfat.run(scenario, "model").flow()["name"]


@pytest.mark.parametrize("action", ["cwnd", "pacing"])
def test_the_environment_conforms_to_gymnasiums_interface(action):
    from gymnasium.utils.env_checker import check_env

    one = env(action=action)
    check_env(one, skip_render_check=True)
    one.close()


def test_actions_set_the_window():
    one = env(initial_cwnd=16)
    observation, info = one.reset(seed=1)
    assert 0.02 <= info["time_s"] <= 0.1
    windows, goodputs, ended = [], [], False
    while not ended:
        observation, reward, terminated, ended, info = one.step(np.array([0.0]))
        assert not terminated and np.isfinite(reward)
        windows.append(observation[0])
        goodputs.append(info["sample"]["goodput_bps"])
    assert set(windows) == {16.0}
    # 16 segments of 1448 bytes per round trip of 20 ms and a short queue: 9.1 Mb/s.
    assert np.mean(goodputs[10:-1]) == pytest.approx(16 * 1448 * 8 / 0.0203, rel=0.05)
    one.reset()
    for _ in range(3):
        observation, *_ = one.step(np.array([1.0]))
    assert observation[0] >= 64
    one.close()
    with pytest.raises(RuntimeError):
        one.step(np.array([0.0]))


def test_actions_set_the_pacing_rate():
    one = env(action="pacing", initial_pacing_bps=40_000_000, max_pacing_bps=60_000_000)
    one.reset(seed=1)
    rates, goodputs, ended = [], [], False
    while not ended:
        observation, _, _, ended, info = one.step(np.array([0.0]))
        rates.append(observation[0])
        goodputs.append(info["sample"]["goodput_bps"])
    # The rate applies from the first ACK on.
    assert set(rates[5:]) == {40e6}
    # The window does not limit: 40 Mb/s of 100 Mb/s, without a queue.
    assert np.mean(goodputs[10:-1]) == pytest.approx(40e6, rel=0.05)
    assert info["sample"]["srtt_us"] < 1.2 * info["sample"]["min_rtt_us"]
    one.reset()
    # A round trip after the action at the latest.
    for changes, rate_bps in (([-1.0, 0.0, 0.0, 0.0], 20e6), ([1.0, 1.0, 1.0, 0.0, 0.0], 60e6)):
        for change in changes:
            observation, *_ = one.step(np.array([change]))
        assert observation[0] == rate_bps
    one.close()


def test_episodes_with_the_same_seed_are_equal():
    def episode(seed):
        one = env()
        one.reset(seed=seed)
        rewards = [one.step(np.array([0.3]))[1] for _ in range(20)]
        one.close()
        return rewards

    assert episode(1) == episode(1)


def test_episodes_without_a_seed_continue_the_sequence_of_the_last_one():
    scenario = longfat.Scenario.path("100mbit", "20ms", loss="1%", duration="1s").with_(sample="20ms", seed=7)

    def episodes(*seeds):
        from longfat.gym import PathEnv

        one = PathEnv(scenario, "bulk")
        rewards = []
        for seed in seeds:
            one.reset(seed=seed)
            rewards.append([one.step(np.array([0.2]))[1] for _ in range(40)])
        one.close()
        return rewards

    first, second, third = episodes(1, None, None)
    assert first != second != third != first
    assert episodes(1, None, None) == [first, second, third]
    # Without any seed the sequence begins with that of the scenario.
    assert episodes(None, None) == episodes(7, None)


def test_ctrl_c_ends_a_step():
    # Without the interruption, the first sample of the flow would take minutes.
    code = """
import longfat
from longfat.gym import PathEnv

scenario = longfat.Scenario.path("1gbit", "20ms", duration="1000000s").with_({"flows.bulk.start": "900000s"})
env = PathEnv(scenario, "bulk")
print("started", flush=True)
try:
    env.reset()
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    env.step([0.0])
except longfat.Error as error:
    print(error, flush=True)
env.close()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\nthe simulation has ended\n"
    assert process.returncode == 0


def test_errors_name_wrong_flows_and_columns():
    scenario = longfat.Scenario.path("100mbit", "20ms", duration="1s")
    from longfat.gym import PathEnv

    with pytest.raises(longfat.BadInput, match="there are cwnd and pacing"):
        PathEnv(scenario, "none", action="rate")
    with pytest.raises(longfat.BadInput, match="initial value 10 is not from 1 to 5"):
        PathEnv(scenario, "none", max_cwnd=5)
    with pytest.raises(longfat.BadInput, match="no TCP flow"):
        PathEnv(scenario, "none").reset()
    with pytest.raises(longfat.BadInput, match="apples"):
        PathEnv(scenario, "none", observation=["apples"]).reset()
