"""Sweeps by Ray, Dask, Slurm and MPI with two workers each, one of which is killed in the middle (not with MPI, which
ends with its workers), and their cost beside that of two threads.

LONGFAT_REPEAT=125 LONGFAT_DURATION=1s makes sweeps of 10,000 runs.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import longfat
from conftest import ROOT, TEXT
from test_sweep import stored

pytestmark = pytest.mark.slow

OVER = {
    "links.h1-h2.forward.loss": ["0", "0.1%", "0.3%", "1%"],
    "links.h1-h2.forward.delay": ["1ms", "5ms", "10ms", "20ms", "50ms"],
    "flows.bulk.cc": ["cubic", "reno", "bbr", "vegas"],
}
REPEAT = int(os.environ.get("LONGFAT_REPEAT", 5))
RUNS = 80 * REPEAT
# Longer than any of these sweeps takes on a busy machine, seconds.
TIMEOUT_S = 3600
# Results after which a worker is killed: the others take some time to arrive.
BEFORE_KILL = RUNS // 4
# Runs are long enough for workers to be busy when one is killed.
LONG_TEXT = TEXT.replace('duration = "1s"', f'duration = "{os.environ.get("LONGFAT_DURATION", "4s")}"')


@pytest.fixture(scope="module")
def by_program(tmp_path_factory):
    """The results of `longfat sweep`."""
    runs = tmp_path_factory.mktemp("program")
    path = runs / "short.toml"
    path.write_text(LONG_TEXT)
    subprocess.run([*program_sweep(path, runs), "--shard=1/1"], check=True, stdout=subprocess.DEVNULL)
    results = stored(runs)
    assert len(results) == RUNS
    return results


def program_sweep(path, runs):
    """The command line of the same sweep by the program."""
    over = [f"--over={field}={','.join(values)}" for field, values in OVER.items()]
    return [os.environ["LONGFAT"], "--runs", str(runs), "sweep", str(path), *over, f"--repeat={REPEAT}"]


def sweep_by(executor, runs, **options):
    scenario = longfat.Scenario.from_text(LONG_TEXT, "short")
    return longfat.sweep(scenario, OVER, repeat=REPEAT, executor=executor, runs=runs, **options)


def sweep_and_kill(executor, kill, runs):
    """Sweeps, and calls `kill` when a part of the runs is done."""
    sweep = sweep_by(executor, runs, chunk=5)
    indices = []
    for point in sweep:
        indices.append(point.index)
        if len(indices) == BEFORE_KILL:
            kill()
    assert sorted(indices) == list(range(RUNS)), "each run is there once"
    assert sweep.executed == RUNS
    # A second start executes nothing.
    assert sweep_by(None, runs).run().executed == 0
    return stored(runs)


@contextmanager
def dask_workers():
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        yield client


@contextmanager
def ray_workers():
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield longfat.executors.RayExecutor()
    finally:
        ray.shutdown()


def test_dask(by_program, tmp_path):
    with dask_workers() as client:

        def kill():
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        results = sweep_and_kill(client.get_executor(), kill, tmp_path)
    assert results == by_program


def test_ray(by_program, tmp_path):
    # Ray sends functions of a test to its workers, but not those of a module, which they could not import.
    def worker_process():
        """The worker's process, returned after a while, so that other workers get such a task too."""
        time.sleep(0.5)
        return os.getpid()

    with ray_workers() as executor:
        workers = {future.result() for future in [executor.submit(worker_process) for _ in range(8)]}
        results = sweep_and_kill(executor, lambda: kill_one(workers), tmp_path)
    assert results == by_program


@contextmanager
def dask_executor():
    with dask_workers() as client:
        yield client.get_executor()


# Two workers of each kind.
WORKERS = {"processes": lambda: ProcessPoolExecutor(2), "dask": dask_executor, "ray": ray_workers}


@pytest.mark.parametrize("kind", WORKERS)
def test_the_cost_of_workers_is_printed(kind, by_program, tmp_path, capsys):
    """Beside two threads of this process. The smaller of two durations each, alternately, because other programs disturb them."""

    def seconds(executor, name):
        begin = time.perf_counter()
        sweep = sweep_by(executor, tmp_path / name)
        sweep.run()
        duration = time.perf_counter() - begin
        assert sweep.executed == RUNS and stored(tmp_path / name) == by_program
        return duration

    with ThreadPoolExecutor(2) as threads, WORKERS[kind]() as executor:
        # Workers load longfat before their time is measured.
        longfat.sweep(longfat.Scenario.from_text(LONG_TEXT, "short"), repeat=16, executor=executor, runs=None, chunk=1).run()
        durations = [(seconds(threads, f"threads{round}"), seconds(executor, f"workers{round}")) for round in (1, 2)]
    by_threads, by_workers = map(min, zip(*durations))
    with capsys.disabled():
        print(
            f"\n{RUNS} runs by two workers ({kind}): {by_workers:.1f} s; by two threads: {by_threads:.1f} s; "
            f"overhead {by_workers / by_threads - 1:+.1%}"
        )


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


CONFIGURATION = """\
ClusterName=longfat
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=all Nodes=ALL Default=YES
"""


@contextmanager
def slurm(folder):
    """Slurm with this machine as its only node; yields the environment of its commands."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    configuration = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    configuration.write_text(CONFIGURATION.format(host=host, ports=free_ports(2), folder=folder))
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    munge = {"socket": "munge.socket", "key-file": "key", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "seed"}
    options = [f"--{option}={folder / name}" for option, name in munge.items()]
    subprocess.run(["munged", "--force", *options], check=True)
    try:
        subprocess.run(["slurmctld", "-c"], check=True, env=environment)
        subprocess.run(["slurmd"], check=True, env=environment)
        yield environment
    finally:
        for daemon in ("slurmd", "slurmctld", "munged"):
            pid_file = folder / f"{daemon}.pid"
            if pid_file.exists():
                os.kill(int(pid_file.read_text()), signal.SIGTERM)


def free_ports(count):
    """Ports on which no program listens now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def kill_a_shard(runs):
    """Kills a process of the program that executes a shard of the sweep, when a part of the runs is done."""
    begin = time.monotonic()
    while sum(1 for _ in runs.glob(".points/*/*.json")) < BEFORE_KILL:
        assert time.monotonic() - begin < TIMEOUT_S, "the shards store nothing"
        time.sleep(0.1)
    for _ in range(2000):
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if words and words[0].endswith(b"longfat") and str(runs).encode() in words and b"--shard" in words:
                os.kill(int(entry.name), signal.SIGKILL)
                return
        time.sleep(0.01)
    raise AssertionError("no process executes a shard")


@pytest.mark.skipif(shutil.which("slurmctld") is None or os.getuid() != 0, reason="needs Slurm (slurmctld, slurmd, munge) and root")
def test_slurm(by_program, tmp_path):
    runs, path = tmp_path / "runs", tmp_path / "short.toml"
    path.write_text(LONG_TEXT)
    line = " ".join([*program_sweep(path, runs), "--shard", "$SLURM_ARRAY_TASK_ID/8"])
    # A task that fails is started again, as docs/sweep.md recommends.
    again = "|| scontrol requeue ${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    with slurm(tmp_path) as environment:
        command = ["sbatch", "--wait", "--requeue", "--array=1-8", f"--output={tmp_path}/%a", f"--wrap={line} {again}"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as array:
            kill_a_shard(runs)
            assert array.wait(timeout=TIMEOUT_S) == 0
        assert "Requeuing JobId" in (tmp_path / "slurmctld.log").read_text(), "a task was started again"
    gathered = subprocess.run([*program_sweep(path, runs), "--gather"], check=True, capture_output=True, text=True)
    assert f"{RUNS} of {RUNS}" in gathered.stdout + gathered.stderr, gathered
    assert stored(runs) == by_program


MPI_SWEEP = """
import sys
import longfat
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    sys.path.insert(0, {tests!r})
    from test_cluster import LONG_TEXT, OVER, REPEAT
    with MPIPoolExecutor() as executor:
        scenario = longfat.Scenario.from_text(LONG_TEXT, "short")
        longfat.sweep(scenario, OVER, repeat=REPEAT, executor=executor, runs={runs!r}, chunk=5).run()
"""


def run_with_mpi(program, folder):
    """Executes the text of a Python program by three processes, of which two are workers."""
    pytest.importorskip("mpi4py.futures")
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if launcher is None:
        pytest.skip("there is no mpiexec")
    script = folder / "sweep.py"
    script.write_text(program)
    subprocess.run([launcher, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)], check=True, cwd=folder)


def test_mpi(by_program, tmp_path):
    run_with_mpi(MPI_SWEEP.format(tests=str(Path(__file__).parent), runs=str(tmp_path / "runs")), tmp_path)
    assert stored(tmp_path / "runs") == by_program


def test_the_example_with_mpi_runs(tmp_path):
    [example] = re.findall(r"^```python mpi\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.M | re.S)
    run_with_mpi(f"import longfat\n{example}", tmp_path)
    assert len(stored(tmp_path / "runs")) == len(longfat.sweep("dsl", {"flows.upload.cc": ["cubic", "bbr"]}, runs=None))
