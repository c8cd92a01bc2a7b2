"""Sweeps by Ray and Dask with two workers each, one of which is killed in the middle."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import longfat
from conftest import TEXT
from test_sweep import stored

pytestmark = pytest.mark.slow

OVER = {
    "links.h1-h2.forward.loss": ["0", "0.1%", "0.3%", "1%"],
    "links.h1-h2.forward.delay": ["1ms", "5ms", "10ms", "20ms", "50ms"],
    "flows.bulk.cc": ["cubic", "reno", "bbr", "vegas"],
}
REPEAT = 5
RUNS = 400
# Long enough that workers are busy when one is killed.
LONG_TEXT = TEXT.replace('duration = "1s"', 'duration = "4s"')


@pytest.fixture(scope="module")
def by_program(tmp_path_factory):
    """The results of `longfat sweep`."""
    runs = tmp_path_factory.mktemp("program")
    path = runs / "short.toml"
    path.write_text(LONG_TEXT)
    over = [f"--over={field}={','.join(values)}" for field, values in OVER.items()]
    command = [os.environ["LONGFAT"], "--runs", runs, "sweep", path, *over, f"--repeat={REPEAT}", "--shard=1/1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    results = stored(runs)
    assert len(results) == RUNS
    return results


def sweep_and_kill(executor, kill, runs):
    """Sweeps, and calls `kill` when the first runs are done."""
    scenario = longfat.Scenario.from_text(LONG_TEXT, "short")
    sweep = longfat.sweep(scenario, OVER, repeat=REPEAT, executor=executor, runs=runs, chunk=5)
    indices = []
    for point in sweep:
        indices.append(point.index)
        if len(indices) == 1:
            kill()
    assert sorted(indices) == list(range(RUNS)), "each run is there once"
    return stored(runs)


def test_dask(by_program, tmp_path):
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:

        def kill():
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        results = sweep_and_kill(client.get_executor(), kill, tmp_path)
    assert results == by_program


def test_ray(by_program, tmp_path):
    import ray

    def worker_process():
        """The worker's process, after a while, so that other workers get such a task too."""
        time.sleep(0.5)
        return os.getpid()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        executor = longfat.executors.RayExecutor()
        workers = {future.result() for future in [executor.submit(worker_process) for _ in range(8)]}
        results = sweep_and_kill(executor, lambda: kill_one(workers), tmp_path)
    finally:
        ray.shutdown()
    assert results == by_program


def kill_one(workers):
    """Kills one of these processes that executes a task of Ray."""
    for _ in range(1000):
        for number in workers:
            try:
                is_busy = Path(f"/proc/{number}/cmdline").read_bytes().startswith(b"ray::_call")
            except OSError:
                continue
            if is_busy:
                os.kill(number, signal.SIGKILL)
                return
        time.sleep(0.005)
    raise AssertionError(f"none of the workers {workers} executes a task")
