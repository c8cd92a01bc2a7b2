"""Lab 8: what limits a transfer over 10 Gb/s and 20 ms, and what changes it. Run: python examples/lab8.py"""

import longfat

scenario = longfat.Scenario.load("lab8").with_(duration="10s")
print(scenario.title)

for variant in scenario.variants:
    for engine in ("model", "sim"):
        run = longfat.run(scenario, engine, variant=variant)
        print(f"{variant:8} {engine:6} {run.goodput_bps / 1e9:5.2f} Gb/s  limited by {run.verdict}")

default = longfat.run(scenario, variant="default")
print("\n".join(default.verdict.evidence))
print("To fix it:", default.verdict.remedy)
default.plot(title="Lab 8, default buffers").save("lab8.svg")
print("Picture: lab8.svg")
