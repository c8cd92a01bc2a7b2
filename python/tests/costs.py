"""Prints what `import longfat` costs, and a run of one simulated second beside the simulation itself: `scripts/test-python.sh wheel`."""

import statistics
import subprocess
import sys
import time

import longfat
from conftest import TEXT

ROUNDS = 21
IMPORT = "import time; begin = time.perf_counter(); import longfat; print(time.perf_counter() - begin)"


def import_s():
    return float(subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True).stdout)


def run_s(scenario):
    begin = time.perf_counter()
    run = longfat.run(scenario)
    # The simulation's own duration, which is rounded to milliseconds.
    return time.perf_counter() - begin - run.summary["wall_s"]


if __name__ == "__main__":
    # The first import may write compiled files.
    import_s()
    scenario = longfat.Scenario.from_text(TEXT, "short")
    for what, seconds in [
        ("import longfat", [import_s() for _ in range(ROUNDS)]),
        ("a run of 1 s beside the simulation", [run_s(scenario) for _ in range(ROUNDS)]),
    ]:
        print(f"{what}: {statistics.median(seconds) * 1e3:.1f} ms (median of {ROUNDS}, minimum {min(seconds) * 1e3:.1f} ms)")
