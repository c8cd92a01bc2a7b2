"""Executes the examples of the documentation."""

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

FENCE = re.compile(r"^```python( slow)?\n(.*?)^```$", re.M | re.S)


def execute(page, slow, folder, monkeypatch):
    """Executes the page's examples one after another, as a reader would."""
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    text = (ROOT / page).read_text()
    executed = 0
    for found in FENCE.finditer(text):
        if slow or not found.group(1):
            line = text[: found.start()].count("\n") + 1
            exec(compile("\n" * line + found.group(2), page, "exec"), names)
            executed += 1
    return executed


@pytest.mark.parametrize(
    ("page", "count"),
    [("docs/python.md", 10), ("python/README.md", 1), ("docs/tutorials/sweep-with-pandas.md", 5)],
)
def test_examples_run(page, count, tmp_path, monkeypatch):
    assert execute(page, False, tmp_path, monkeypatch) >= count


# Pages whose examples the tests of this file, of test_agent and of test_cluster execute.
EXECUTED = {"docs/python.md", "docs/record.md", "docs/tutorials/sweep-with-pandas.md", "python/README.md"}


def test_no_other_page_has_python_examples():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("python/*.md")]
    found = {str(page.relative_to(ROOT)) for page in pages if "\n```python" in page.read_text()}
    assert found == EXECUTED
    words = re.findall(r"^```python(.*)$", (ROOT / "docs/python.md").read_text(), re.M)
    assert set(words) == {"", " slow", " agent", " mpi"}


@pytest.mark.slow
def test_examples_with_clusters_run(tmp_path, monkeypatch):
    assert execute("docs/python.md", True, tmp_path, monkeypatch) >= 12


def test_the_examples_of_the_record_page_read_records(program, tmp_path, monkeypatch):
    """Its SQL by DuckDB. A copy of the records, with the directories of an object store, stands for the store."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setenv("PATH", f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    for line in ("run lab8 --engine sim --set duration=1s", "export table lab8/ -o runs.parquet"):
        subprocess.run([program, *line.split()], check=True, capture_output=True)
    records = json.loads(subprocess.check_output([program, "ls", "--json"]))
    for record in records:
        shutil.copytree(record["path"], tmp_path / f"store/lab8/run={record['id']}")
    names: dict = {}
    results = []
    text = (ROOT / "docs/record.md").read_text()
    for language, example in re.findall(r"^```(python|sql)\n(.*?)^```$", text, re.M | re.S):
        example = example.replace("lab8/ID/", f"lab8/{records[0]['id']}/").replace("s3://lab/runs", str(tmp_path / "store"))
        if language == "sql":
            results.append(duckdb.sql(example).fetchall())
        else:
            exec(compile(example, "docs/record.md", "exec"), names)
    by_variant, by_run = results
    assert sorted(row[1] for row in by_variant) == ["default", "tuned"]
    assert sorted(row[0] for row in by_run) == sorted(record["id"] for record in records) and len(records) == 2
    assert len(names["cwnd"]) > 10 and names["cwnd"]["snd_cwnd_segs"].max() > 10
    assert set(names["rows"]["variant"]) == {"default", "tuned"}
    assert set(names["flows"].collect()["run"]) == {record["id"] for record in records}
    assert set(names["runs"]["variant"]) == {"default", "tuned"} and (names["runs"]["goodput_bps"] > 1e9).all()


def test_the_example_of_lab8_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/lab8.py"), run_name="__main__")
    assert "limited by path_rate" in capsys.readouterr().out
    assert (tmp_path / "lab8.svg").read_text().startswith("<svg")


# The changes to the notebook of the mesh's week: the plan in its first cell.
CHANGES = {
    **{f"{sender}-d": ("Wed 12:00", "receive_window") for sender in "abc"},
    **{pair: ("Fri 00:00", "loss") for pair in ("a-b", "b-a")},
}


def numbers(pattern, text):
    """The numbers of the first match."""
    found = re.search(pattern, text)
    assert found, (pattern, text)
    return [float(group) for group in found.groups()]


def check_lab8(texts):
    assert 16 < int(texts[-1]) <= 50


def check_fairness(texts):
    assert 5 <= int(texts[-1].strip("()").split(",")[0]) <= 9


def check_knee(texts):
    text = "\n".join(texts)
    assert numbers(r"bandwidth-delay product: (\d+) kB", text) == [250]
    knee, half_width = numbers(r"knee at (\d+) ± (\d+) KiB", text)
    (law,) = numbers(r"the law predicts (\d+) KiB", texts[-1])
    # A tenth of the law's value.
    assert half_width <= 16 and abs(knee - law) <= 16, (knee, half_width, law)


def check_congestion_control(texts):
    text = "\n".join(texts)
    reno, mine = numbers(r"Reno ([\d.]+) Mb/s, mine ([\d.]+) Mb/s", text)
    # A queue of a quarter of the bandwidth-delay product: Reno leaves the path idle for a part of the time.
    assert 30 < reno < mine < 50, (reno, mine)
    rows = re.findall(r"^(0\.\d)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)$", text, re.M)
    kept, alone, share, jain = zip(*(map(float, row) for row in rows))
    assert kept == (0.5, 0.6, 0.7, 0.8, 0.9)
    assert list(alone) == sorted(alone) and list(share) == sorted(share), rows
    # With a half it is Reno.
    assert alone[0] == pytest.approx(reno, abs=0.1) and alone[3] == pytest.approx(mine, rel=0.01), rows
    assert share[0] == pytest.approx(0.5, abs=0.1) and share[4] > 0.7 and jain[0] > jain[4], rows
    if texts[-1].startswith("kernel"):
        kernel, simulated = numbers(r"kernel ([\d.]+) Mb/s, simulator ([\d.]+) Mb/s", texts[-1])
        assert 0 < kernel < 50 and simulated == mine, texts
    else:
        # The message of longfat.Missing, where the kernel cannot load it.
        assert len(texts[-1].split()) > 3, texts


def check_mesh_week(texts):
    assert ast.literal_eval(texts[-1]) == CHANGES


# Checks of the texts that the cells of each notebook show.
NOTEBOOKS = {
    "lab8": check_lab8,
    "fairness": check_fairness,
    "knee": check_knee,
    "congestion-control": check_congestion_control,
    "mesh-week": check_mesh_week,
}
# Notebooks that call the program by its name.
PROGRAM = {"mesh-week"}


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("*.ipynb")))
def test_a_notebook_runs(name, request, tmp_path, monkeypatch):
    if name in PROGRAM:
        folder = Path(request.getfixturevalue("program")).parent
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / f"examples/{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if {"image/svg+xml", "image/png"} & output.get("data", {}).keys()]
    assert pictures, "a plot is shown inline"
    # Results of expressions, and what cells print.
    shown = [output for output in outputs if output.get("name") != "stderr"]
    texts = [output.get("data", {}).get("text/plain") or output.get("text", "") for output in shown]
    assert notebook.cells[-1].outputs, "the last cell shows a result"
    NOTEBOOKS[name]([text.strip() for text in texts if text.strip()])
