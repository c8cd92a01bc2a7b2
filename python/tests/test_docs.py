"""Executes the examples of the documentation."""

import ast
import os
import re
import runpy
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


@pytest.mark.slow
def test_examples_with_clusters_run(tmp_path, monkeypatch):
    assert execute("docs/python.md", True, tmp_path, monkeypatch) >= 12


def test_the_example_of_lab8_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/lab8.py"), run_name="__main__")
    assert "limited by path_rate" in capsys.readouterr().out
    assert (tmp_path / "lab8.svg").read_text().startswith("<svg")


# The output of the last cell of each notebook.
NOTEBOOKS = {
    "lab8": lambda text: 16 < int(text) <= 50,
    "fairness": lambda text: 5 <= int(text.strip("()").split(",")[0]) <= 9,
    "knee": lambda text: True,
    "congestion-control": lambda text: True,
    "mesh-week": lambda text: ast.literal_eval(text) == CHANGES,
}
# The changes to the notebook of the mesh's week: the plan in its first cell.
CHANGES = {
    **{f"{sender}-d": ("Wed 12:00", "receive_window") for sender in "abc"},
    **{pair: ("Fri 00:00", "loss") for pair in ("a-b", "b-a")},
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
    results = [output.get("data", {}).get("text/plain") or output.get("text", "") for output in notebook.cells[-1].outputs]
    assert results and NOTEBOOKS[name](results[0]), results
