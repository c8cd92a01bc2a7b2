import pickle

import pytest

import longfat
from conftest import ROOT, TEXT


def test_a_mistake_has_its_file_line_and_column():
    text = TEXT.replace("duration", "duratoin")
    with pytest.raises(longfat.ScenarioError) as caught:
        longfat.Scenario.from_text(text, "wrong")
    error = caught.value
    mistake = next(one for one in error.mistakes if "duratoin" in one.message)
    assert (mistake.file, mistake.line, mistake.column) == ("wrong.toml", 2, 1)
    assert mistake.location == "wrong.toml:2:1" and 'did you mean "duration"?' in mistake.help
    assert (error.file, error.line, error.column) == error.mistakes[0][3:]
    assert 'wrong.toml:2:1: unknown key "duratoin"' in str(error)
    assert isinstance(error, longfat.BadInput) and isinstance(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_all_mistakes_are_listed():
    text = TEXT.replace('"100mbit"', '"100 apples"').replace('to = "h2"', 'to = "h9"')
    with pytest.raises(longfat.ScenarioError) as caught:
        longfat.Scenario.from_text(text)
    assert len(caught.value.mistakes) >= 1
    assert all(mistake.line and mistake.column for mistake in caught.value.mistakes)


def test_an_invalid_change_is_named(scenario):
    with pytest.raises(longfat.ScenarioError) as caught:
        scenario.with_({"flows.bulk.cd": "reno"})
    mistake = caught.value.mistakes[0]
    assert mistake.location == "--set flows.bulk.cd=reno" and mistake.line is None


def test_files_and_built_in_names_are_loaded(tmp_path):
    assert longfat.Scenario.load(ROOT / "scenarios/lab8.toml").variants == ["default", "tuned"]
    assert longfat.Scenario.load("lab8").variants == ["default", "tuned"]
    assert longfat.built_in()["lab8"] == longfat.Scenario.load("lab8").title
    with pytest.raises(longfat.BadInput, match="cannot read"):
        longfat.Scenario.load(tmp_path / "none.toml")


def test_none_is_no_value(scenario):
    for changes in ({"title": None}, {"flows": {"bulk": {"cc": None}}}):
        with pytest.raises(longfat.BadInput, match="None is no value"):
            scenario.with_(changes)


def test_changes_are_dotted_or_nested(scenario):
    dotted = scenario.with_({"links.h1-h2.forward.delay": "50ms", "flows.bulk.cc": "reno"}, duration="2s")
    nested = scenario.with_(
        links={"h1-h2": {"forward": longfat.Direction(delay="50ms")}}, flows={"bulk": {"cc": "reno"}}, duration="2s"
    )
    assert dotted.to_toml() == nested.to_toml()
    assert 'delay = "50 ms"' in dotted.to_toml() and 'duration = "2 s"' in dotted.to_toml()
    assert scenario.changes == {}, "the original is unchanged"
    again = dotted.with_(duration="3s")
    assert again.changes["duration"] == "3s" and len(again.changes) == 3


def test_numbers_of_numpy_are_written_like_python_numbers(scenario):
    np = pytest.importorskip("numpy")
    cc = {"name": "griddt", "a": np.int64(4), "backoff": np.float64(0.5)}
    changed = scenario.with_({"flows.bulk.cc": cc})
    assert changed.changes == scenario.with_({"flows.bulk.cc": {"name": "griddt", "a": 4, "backoff": 0.5}}).changes


def test_values_may_be_tables_and_names_may_have_dots(scenario):
    changed = scenario.with_(
        flows={"bulk": {"cc": {"name": "griddt", "a": 7}}},
        hosts={"h2": {"sysctl": {"net.ipv4.tcp_rmem": "4096 131072 1000000"}}},
        links={"h1-h2": {"both": {"overhead": 38}}},
    )
    text = changed.to_toml()
    assert "griddt" in text and "4096 131072 1000000" in text and "overhead = 38" in text


def test_dataclasses_give_the_same_scenario_as_the_text(scenario):
    built = longfat.Scenario.of(
        name="short",
        title="A short path",
        duration="1s",
        sample="10ms",
        hosts={"h1": longfat.Host("10.0.0.1/8"), "h2": longfat.Host("10.0.0.2/8")},
        links=[longfat.Link(("h1", "h2"), forward=longfat.Direction(rate="100mbit", delay="10ms", queue="250kB"))],
        flows=[longfat.Flow("bulk", from_="h1", to="h2", cc="cubic")],
    )
    assert built.to_toml() == scenario.to_toml()
    switched = longfat.Scenario.of(
        hosts={
            "h1": longfat.Host("10.0.0.1/8", sysctl={"net.ipv4.tcp_wmem": "4096 16384 99999"}, more={"turnaround": "20us"}),
            "h2": longfat.Host("10.0.0.2/8", kernel="6.1", mtu=9000),
        },
        switches=["s1"],
        links=[longfat.Link(("h1", "s1"), name="first"), longfat.Link(("s1", "h2"), both=longfat.Direction(loss=0.01))],
        flows=[longfat.Flow("p", "h1", "h2", kind="ping", more={"count": 3})],
        duration="1s",
    )
    text = switched.to_toml()
    assert "20 us" in text and "99999" in text and "[switches]" in text and 'name = "first"' in text


def test_a_path_has_a_variant_for_each_congestion_control():
    path = longfat.Scenario.path("1gbit", "50ms", loss="0.01%", cc=["cubic", "bbr"], duration="2s")
    assert path.variants == ["cubic", "bbr"]
    with pytest.raises(longfat.BadInput):
        longfat.Scenario.path("fast", "50ms")


def test_scenarios_are_compared_hashed_and_pickled_by_value(scenario):
    changed = scenario.with_({"flows.bulk.cc": "bbr"}).with_kernel("6.1")
    copy = pickle.loads(pickle.dumps(changed))
    assert copy == changed and hash(copy) == hash(changed) and copy != scenario
    assert copy.to_toml() == changed.to_toml()
    assert "short" in repr(changed) and "flows.bulk.cc=bbr" in repr(changed)
    with pytest.raises(longfat.BadInput):
        scenario.with_kernel("latest")
