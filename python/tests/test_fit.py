from concurrent.futures import ProcessPoolExecutor

import pytest

import longfat

pytest.importorskip("scipy")


def test_known_values_are_recovered(scenario, tmp_path):
    true = scenario.with_({"links.h1-h2.forward.delay": "17ms", "links.h1-h2.forward.rate": "60mbit"})
    flow = longfat.run(true).flow()
    figures = {f"bulk.{key}": flow[key] for key in ("goodput_bps", "min_rtt_us")}
    unknowns = {
        "links.h1-h2.forward.delay": longfat.Unknown(1, 50, "ms"),
        "links.h1-h2.forward.rate": longfat.Unknown(10, 200, "mbit", logarithmic=True),
    }
    seen = []
    options = {"runs": tmp_path, "tolerance": 0.01, "population": 10, "progress": lambda *step: seen.append(step)}
    found = longfat.fit(scenario, unknowns, figures, **options)
    assert found.error <= 0.01
    assert float(found.values["links.h1-h2.forward.delay"][:-2]) == pytest.approx(17, rel=0.1)
    assert float(found.values["links.h1-h2.forward.rate"][:-4]) == pytest.approx(60, rel=0.1)
    assert found.executed == len(found.tried) > 10 and seen
    again = longfat.fit(scenario, unknowns, figures, **options)
    assert again.executed == 0 and again.values == found.values
    with ProcessPoolExecutor(2) as processes:
        by_processes = longfat.fit(scenario, unknowns, figures, **{**options, "runs": None, "executor": processes})
    assert by_processes.tried == found.tried and by_processes.executed == found.executed


def test_invalid_searches_are_refused(scenario):
    unknown = {"links.h1-h2.forward.queue": longfat.Unknown(10, 100, "p", integer=True)}
    with pytest.raises(longfat.BadInput):
        longfat.fit(scenario, unknown, {})
    with pytest.raises(longfat.BadInput, match="bulk.apples"):
        longfat.fit(scenario, unknown, {"bulk.apples": 1.0}, engine="model")
    with pytest.raises(longfat.BadInput, match="low"):
        longfat.fit(scenario, {"links.h1-h2.forward.queue": longfat.Unknown(9, 1)}, {"bulk.goodput_bps": 1.0})
    with pytest.raises(longfat.BadInput, match="not zero"):
        longfat.fit(scenario, unknown, {"bulk.goodput_bps": 1.0, "bulk.lost_segments": 0})
    assert longfat.Unknown(1, 1000, "p", logarithmic=True, integer=True).text(0.5) == "32p"


def test_several_scenarios_are_not_averaged():
    path = longfat.Scenario.path("100mbit", "20ms", cc=["cubic", "reno"], duration="1s")
    unknown = {"links.path.both.delay": longfat.Unknown(1, 50, "ms")}
    figures = {"bulk.min_rtt_us": 20_000}
    with pytest.raises(longfat.BadInput, match="pass variant=, one of cubic, reno"):
        longfat.fit(path, unknown, figures)
    text = longfat.Scenario.path("100mbit", "20ms").text
    swept = longfat.Scenario.from_text(text + '\n[[sweeps]]\nfield = "links.path.both.loss"\nvalues = ["0.1%", "1%"]\n')
    with pytest.raises(longfat.BadInput, match="sweeps"):
        longfat.fit(swept, unknown, figures, engine="model")
