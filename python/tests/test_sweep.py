import json
import subprocess
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import longfat

OVER = {"links.h1-h2.forward.queue": ["20p", "100p", "400p"], "flows.bulk.cc": ["cubic", "reno"]}


def stored(runs):
    """The stored documents by address."""
    return {path.stem: path.read_bytes() for path in (runs / ".points").glob("*/*.json")}


def test_a_sweep_has_all_combinations_in_order(scenario):
    sweep = longfat.sweep(scenario, OVER, repeat=2, runs=None)
    assert len(sweep) == 12
    points = sweep.points
    assert [point.index for point in points] == list(range(12))
    assert points[0].values == {"links.h1-h2.forward.queue": "20p", "flows.bulk.cc": "cubic"}
    assert [point.repeat for point in points[:2]] == [1, 2] and points[1].seed == points[0].seed + 1
    assert all(point.goodput_bps > 1e6 and point.verdict for point in points)
    assert sweep.executed == 12
    frame = sweep.to_pandas()
    assert len(frame) == 12 and set(frame["flows.bulk.cc"]) == {"cubic", "reno"}
    assert frame["min_rtt_s"].between(0.01, 0.1).all() and "limited.loss" in frame
    assert sweep.to_polars().shape == frame.shape


def test_large_seeds_keep_their_digits(scenario):
    seed = 2**53 + 1
    frame = longfat.sweep(scenario.with_(seed=seed), {"flows.bulk.cc": ["cubic"]}, runs=None).to_pandas()
    assert list(frame["seed"]) == [str(seed)]


def test_a_point_equals_the_run_of_its_values(scenario):
    point = longfat.sweep(scenario, OVER, runs=None).points[3]
    run = longfat.run(scenario.with_(point.values), seed=point.seed)
    assert point.flow("bulk") == run.flow()


def test_results_are_yielded_as_they_arrive_and_not_computed_twice(scenario, tmp_path):
    first = longfat.sweep(scenario, OVER, runs=tmp_path, chunk=1)
    seen = []
    for point in first:
        seen.append(point.index)
        if len(seen) == 2:
            break
    assert 2 <= len(stored(tmp_path)) <= 6
    begun = len(stored(tmp_path))
    second = longfat.sweep(scenario, OVER, runs=tmp_path).run()
    assert second.executed == 6 - begun and len(second.points) == 6
    third = longfat.sweep(scenario, OVER, runs=tmp_path)
    assert all(point.is_stored for point in third) and third.executed == 0
    # A point that another sweep has stored counts too.
    other = longfat.sweep(scenario.with_({"flows.bulk.cc": "reno"}), {"links.h1-h2.forward.queue": ["20p", "30p"]}, runs=tmp_path)
    other.run()
    assert other.executed == 1
    progress = []
    longfat.sweep(scenario, OVER, runs=tmp_path, progress=lambda *counts: progress.append(counts)).run()
    assert progress[-1] == (6, 6)


def test_a_list_without_points_is_a_sweep_without_runs(scenario):
    sweep = longfat.sweep(scenario, [], runs=None)
    assert len(sweep) == 0 and sweep.points == [] and sweep.executed == 0
    assert len(longfat.sweep(scenario, {}, runs=None)) == 1


def test_equal_points_are_executed_once(scenario):
    sweep = longfat.sweep(scenario, {"links.h1-h2.forward.delay": ["10ms", "10000us"]}, runs=None)
    assert len(sweep.points) == 2 and sweep.executed == 1
    assert sweep.points[0].document == sweep.points[1].document


def test_executors_give_the_same_bytes_as_the_program(program, scenario, tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(scenario.text)
    over = [f"--over={field}={','.join(values)}" for field, values in OVER.items()]
    shell = lambda *more: subprocess.run(
        [program, "--runs", tmp_path / "shell", "sweep", path, *over, "--repeat=2", *more], capture_output=True, text=True
    )
    missing = shell("--gather")
    assert missing.returncode == 1 and "12 of 12 runs have no result" in missing.stderr
    for number in (1, 2, 3):
        document = json.loads(shell(f"--shard={number}/3", "--json").stdout)
        assert (document["runs"], document["executed"]) == (4, 4)
    assert json.loads(shell("--shard=2/3", "--json").stdout)["executed"] == 0
    gathered = json.loads(shell("--gather", "--json").stdout)
    by_program = stored(tmp_path / "shell")
    assert len(by_program) == 12

    loaded = longfat.Scenario.load(path)
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2) as processes:
        for name, executor in {"own": None, "threads": threads, "processes": processes}.items():
            sweep = longfat.sweep(loaded, OVER, repeat=2, executor=executor, runs=tmp_path / name, chunk=2)
            sweep.run()
            assert sweep.executed == 12 and stored(tmp_path / name) == by_program
    figures = [figure for point in gathered["points"] for figure in point["figures"]]
    assert figures == [point.goodput_bps for point in sweep.points]


def test_a_lost_worker_ends_the_sweep_and_the_next_one_continues(scenario, tmp_path):
    class Lossy(Executor):
        """Loses every second task."""

        def __init__(self):
            self.inner, self.count = ThreadPoolExecutor(1), 0

        def submit(self, fn, /, *args, **kwargs):
            self.count += 1
            return self.inner.submit(fn if self.count % 2 else lost, *args, **kwargs)

    def lost(*_):
        raise ConnectionError("worker lost")

    for _ in range(10):
        sweep = longfat.sweep(scenario, OVER, executor=Lossy(), runs=tmp_path, chunk=1)
        try:
            sweep.run()
            break
        except ConnectionError:
            continue
    whole = longfat.sweep(scenario, OVER, runs=None).points
    assert stored(tmp_path) == {point.address: point.document.encode() for point in whole}


def test_invalid_sweeps_are_refused_before_they_start(scenario):
    for over, error in [
        ({"flows.bulk.cd": ["reno"]}, longfat.ScenarioError),
        ({"flows.bulk.cc": ["renoo"]}, longfat.ScenarioError),
    ]:
        with pytest.raises(error):
            longfat.sweep(scenario, over, runs=None)
    with pytest.raises(longfat.BadInput, match="a list of values"):
        longfat.sweep(scenario, {"seed": "12"}, runs=None)
    for more in ({"engine": "lab"}, {"chunk": 0}, {"repeat": 0}):
        with pytest.raises(longfat.BadInput):
            longfat.sweep(scenario, OVER, runs=None, **more)


def test_files_with_sweeps_and_variants(tmp_path):
    text = longfat.Scenario.path("100mbit", "10ms", cc=["cubic", "reno"], duration="200ms").text
    swept = longfat.Scenario.from_text(text + '\n[[sweeps]]\nfield = "links.path.both.loss"\nvalues = ["0.1%", "1%"]\n')
    sweep = longfat.sweep(swept, {"links.path.forward.queue": ["10p", "50p"]}, engine="model", runs=None)
    assert len(sweep) == 8
    assert {(point.variant, *point.values.values()) for point in sweep} == {
        (cc, loss, queue) for cc in ("cubic", "reno") for loss in ("0.1%", "1%") for queue in ("10p", "50p")
    }
    with pytest.raises(longfat.BadInput, match="longfat.sweep"):
        longfat.run(swept, variant="cubic")
