import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import longfat
from conftest import ROOT


def test_a_run_has_series_a_summary_and_a_verdict(scenario):
    run = longfat.run(scenario, engine="sim", seed=3)
    assert run.summary["seed"] == 3 and run.summary["engine"] == "sim"
    assert 60e6 < run.goodput_bps < 100e6
    assert run.verdict in run.flow()["limited"] or run.verdict == run.flow()["verdict"]
    assert run.verdict.evidence and abs(sum(run.verdict.limited.values()) - 1) < 0.02
    assert run.verdicts == {"bulk": run.verdict}
    assert 90 < len(run.flows) <= 100 and run.path is None and not run.partial
    assert 'duration = "1 s"' in run.scenario_toml
    assert "Mb/s" in repr(run)
    with pytest.raises(longfat.BadInput, match="bulk"):
        run.flow("other")


def test_runs_with_the_same_seed_are_equal(scenario):
    lossy = scenario.with_({"links.h1-h2.forward.loss": "1%"})
    rows = [longfat.run(lossy, seed=seed).flows.to_arrow() for seed in (1, 1, 2)]
    assert rows[0].equals(rows[1]) and not rows[0].equals(rows[2])


def test_the_model_has_a_verdict_but_no_series(scenario):
    run = longfat.run(scenario, engine="model")
    assert run.summary["engine"] == "model" and len(run.flows) == 0 and run.verdict


def test_series_are_arrow_tables_without_copies(scenario):
    import pyarrow

    flows = longfat.run(scenario).flows
    table = pyarrow.table(flows)
    assert table.num_rows == len(flows) and table.column_names == list(flows.columns)
    assert flows.columns["srtt_us"].startswith("smoothed round-trip time")
    assert table.schema.field("time_us").type == pyarrow.int64() and not table.schema.field("time_us").nullable
    # Both tables are views of the same memory.
    again = pyarrow.table(flows)
    address = lambda one: one.column("time_us").chunk(0).buffers()[1].address
    assert address(table) == address(again)
    del flows
    assert table.column("time_us")[-1].as_py() == 1_000_000
    assert pyarrow.schema(longfat.run(scenario).links).names[:3] == ["time_us", "link", "direction"]


def test_pandas_polars_and_duckdb_read_series(scenario):
    import duckdb

    run = longfat.run(scenario)
    frame, polars_frame = run.flows.to_pandas(), run.flows.to_polars()
    assert len(frame) == len(polars_frame) == len(run.flows)
    assert frame["snd_cwnd_segs"].max() == polars_frame["snd_cwnd_segs"].max() > 10
    flows = run.flows.to_arrow()
    [(most,)] = duckdb.sql("select max(snd_cwnd_segs) from flows where limited_by is not null").fetchall()
    assert most == frame["snd_cwnd_segs"].max() and flows
    kinds = set(run.events.to_pandas()["kind"])
    assert {"start", "stop"} <= kinds


def test_a_plot_equals_the_programs_svg(program, scenario, tmp_path):
    recorded = longfat.run(scenario, runs=tmp_path / "runs")
    command = [program, "plot", str(recorded.path), "--metric", "goodput,cwnd,rtt", "-o", str(tmp_path / "program.svg")]
    subprocess.run(command, check=True, capture_output=True)
    assert recorded.plot().svg == (tmp_path / "program.svg").read_text()


def test_a_plot_has_options_and_is_saved(scenario, tmp_path):
    run = longfat.run(scenario)
    plot = run.plot("cwnd", title="Window", width=500)
    assert plot._repr_svg_().startswith("<svg") and "Window" in plot.svg
    plot.save(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text() == plot.svg
    assert run.plot(["rtt"], against="cwnd").svg != plot.svg
    with pytest.raises(longfat.BadInput, match="apples"):
        run.plot("apples")


def test_records_are_written_on_request_and_opened(scenario, tmp_path):
    run = longfat.run(scenario, runs=tmp_path)
    assert run.path.parent == tmp_path / "short" and (run.path / "flows.parquet").exists()
    for opened in (longfat.open(run.path), longfat.open("last", runs=tmp_path), longfat.open("short/last", tmp_path)):
        assert opened.flows.to_arrow().equals(run.flows.to_arrow())
        assert opened.summary["flows"] == run.summary["flows"]
    with pytest.raises(longfat.BadInput):
        longfat.open("none", runs=tmp_path)


def test_records_of_version_0_1_are_opened():
    runs = ROOT / "crates/cli/tests/records-0.1"
    records = sorted(runs.glob("*/*"))
    assert len(records) == 3
    for record in records:
        run = longfat.open(record)
        assert run.flow("bulk")["goodput_bps"] > 1e6 and run.verdict and not run.partial
        if run.summary["engine"] != "model":
            assert len(run.flows) > 10 and "<svg" in run.plot().svg
            assert run.flows.to_arrow().column("snd_cwnd_segs")[-1].as_py() > 0


def test_runs_are_compared(scenario):
    one, other = longfat.run(scenario), longfat.run(scenario.with_({"links.h1-h2.forward.rate": "50mbit"}))
    comparison = longfat.compare(one, other)
    goodput = next(row for row in comparison if row["metric"] == "goodput_bps")
    assert goodput["flow"] == "bulk" and 0.4 < goodput["ratio"] < 0.7
    assert len(comparison.to_pandas()) == len(comparison.rows)


def test_invalid_selections_are_named(scenario):
    with pytest.raises(longfat.BadInput, match="default, tuned"):
        longfat.run("lab8")
    with pytest.raises(longfat.BadInput, match="there is no engine"):
        longfat.run(scenario, engine="ns3")
    with pytest.raises(longfat.ScenarioError):
        longfat.run("lab8", variant="fast")
    with pytest.raises(longfat.ScenarioError, match="cubicc"):
        longfat.run(scenario.with_({"flows.bulk.cc": "cubicc"}))


def test_the_interpreter_lock_is_released(scenario):
    long = scenario.with_(duration="60s")
    done = threading.Event()
    thread = threading.Thread(target=lambda: (longfat.run(long), done.set()))
    thread.start()
    turns = 0
    while not done.wait(0.001):
        turns += 1
    thread.join()
    assert turns > 3, "this thread ran while the other one simulated"


def test_progress_is_reported_and_an_exception_in_it_ends_the_run(scenario):
    seen = []
    longfat.run(scenario.with_(duration="200s"), progress=lambda elapsed, total: seen.append((elapsed, total)))
    assert seen and seen == sorted(seen) and all(total == 200 for _, total in seen)

    class Enough(Exception):
        pass

    def stop(elapsed, total):
        raise Enough

    with pytest.raises(Enough):
        longfat.run(scenario.with_(duration="100000s"), progress=stop)


@pytest.mark.parametrize(
    "call",
    [
        "longfat.run(scenario)",
        'longfat.sweep(scenario, {"flows.bulk.cc": ["cubic", "reno", "bbr"]}, runs=None).run()',
        '_run_chunk(scenario, "sim", [(0, None, (), 1)])',
    ],
)
def test_ctrl_c_ends_a_run(call):
    """The last call is the one that a sweep's worker executes in another process."""
    code = f"""
import longfat
from longfat._sweep import _run_chunk

scenario = longfat.Scenario.path("1gbit", "20ms", duration="1000000s")
print("started", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert process.returncode == 0


@pytest.mark.parametrize("ends_cleanly", [True, False])
def test_ctrl_c_lets_the_program_end_cleanly(tmp_path, ends_cleanly):
    """Uses a program that takes two seconds to end, or never ends."""
    fake = tmp_path / "longfat"
    fake.write_text(
        f"""#!{sys.executable}
import pathlib, signal, time
signals = []
signal.signal(signal.SIGINT, lambda *_: signals.append(1))
folder = pathlib.Path({str(tmp_path)!r})
(folder / "started").touch()
while not signals or not {ends_cleanly}:
    time.sleep(0.05)
time.sleep(2)
(folder / "signals").write_text(str(len(signals)))
"""
    )
    fake.chmod(0o755)
    code = f"""
from longfat import _program
if not {ends_cleanly}:
    _program._END_TIMEOUT_S = 0.5
try:
    _program.run_json(["ls"])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    environment = {**os.environ, "LONGFAT": str(fake)}
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, text=True, env=environment, start_new_session=True)
    begun = time.monotonic()
    while not (tmp_path / "started").exists():
        assert process.poll() is None and time.monotonic() - begun < 60
        time.sleep(0.05)
    # The signal goes to the process group, as from a terminal and Jupyter.
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert process.returncode == 0
    if ends_cleanly:
        assert (tmp_path / "signals").read_text() == "1"
    else:
        assert not (tmp_path / "signals").exists()


def test_closed_forms():
    figures = longfat.bdp("10gbit", "50ms", window="1MiB", loss="0.01%")
    assert figures["bdp_bytes"] == 62_500_000
    assert "rate x RTT" in figures.figures["bdp_bytes"].sentence and "bdp_bytes" in repr(figures)
    assert set(longfat.bdp("1gbit", "1ms")) < set(figures)
    for wrong in [("apples", "50ms"), ("1gbit", "0ms")]:
        with pytest.raises(longfat.BadInput):
            longfat.bdp(*wrong)


def test_a_congestion_control_is_checked(program, tmp_path):
    good = longfat.cc.check(ROOT / "crates/cc/algorithms/reno.bpf.c")
    assert good and good.name == "reno" and any(step.state == "ok" for step in good.steps)
    bad = tmp_path / "bad.bpf.c"
    bad.write_text("int x = ;\n")
    checked = longfat.cc.check(bad)
    assert not checked and "bad.bpf.c:1" in "".join(step.found for step in checked.steps)


def test_a_program_that_does_not_exist_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGFAT", str(tmp_path / "longfat"))
    with pytest.raises(longfat.Missing, match="cannot execute the program"):
        longfat.cc.check("reno")


def test_the_program_runs_the_other_engines(program, scenario, tmp_path):
    # The same path as for a lab, with an engine that needs no privilege.
    from longfat._run import _run_by_program

    changed = scenario.with_({"flows.bulk.cc": "reno"})
    run = _run_by_program(changed, "sim", None, None)
    own = longfat.run(changed)
    assert run.flows.to_arrow().equals(own.flows.to_arrow())
    assert run.path is None and "record" not in run.summary, "its temporary record is removed"
    kept = _run_by_program(changed, "sim", None, tmp_path)
    assert kept.path.parent == tmp_path / "short" and kept.summary["record"] == str(kept.path)


def test_the_program_executes_the_same_run_as_the_process(program, scenario, tmp_path):
    from longfat._run import _run_by_program

    scenario = scenario.with_(repeat=3).with_kernel("2.4")
    by_program = _run_by_program(scenario, "sim", None, tmp_path)
    own = longfat.run(scenario)
    assert by_program.summary["kernel"] == own.summary["kernel"] == "2.4"
    assert by_program.flows.to_arrow().equals(own.flows.to_arrow())
    assert not own.flows.to_arrow().equals(longfat.run(scenario.with_kernel("6.1")).flows.to_arrow())
    assert [entry.name for entry in (tmp_path / "short").iterdir()] == [by_program.summary["id"]], "one of three repeats"


def test_several_runs_are_refused_before_the_program_executes_one(scenario, monkeypatch):
    from longfat._run import _run_by_program

    monkeypatch.setenv("LONGFAT", "/bin/false")
    text = scenario.text + '[[sweeps]]\nfield = "duration"\nvalues = ["1s", "2s"]\n'
    for several, engine, match in [
        (longfat.Scenario.load("lab8"), "lab", "variant"),
        (longfat.Scenario.from_text(text), "lab", "longfat.sweep"),
        (scenario, "sim,model", "one engine"),
    ]:
        with pytest.raises(longfat.BadInput, match=match):
            _run_by_program(several, engine, None, None)


def test_the_examples_of_docstrings():
    import doctest

    import longfat._bdp

    for module in (longfat, longfat._bdp):
        result = doctest.testmod(module, extraglobs={"longfat": longfat})
        assert result.attempted and not result.failed


def test_importing_loads_no_large_module():
    code = "import sys, longfat; print([m for m in ('pandas', 'pyarrow', 'numpy', 'concurrent.futures', 'subprocess') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_program_finds_files_that_a_text_names(program, scenario, tmp_path, monkeypatch):
    """The same path as for a lab, with an engine that needs no privilege."""
    from longfat._run import _run_by_program

    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "crates/cc/algorithms/reno.bpf.c", "mine.bpf.c")
    run = _run_by_program(scenario.with_({"flows.bulk.cc": {"file": "mine.bpf.c"}}), "sim", None, None)
    assert run.flow()["cc_from"] == "mine.bpf.c"
