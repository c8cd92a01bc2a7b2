#!/usr/bin/env python3
"""Writes the pages of the site to target/site/pages: the repository's documents in the same directories, so that their
links remain valid, and pages made by the program: the help of all commands, and a gallery of scenarios with picture and verdict.

    pages.py LONGFAT
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "target/site/pages"
# Files outside docs/ that pages link to.
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "crates/guest/kernel.config"]
# Collections and single scenarios of the gallery.
COLLECTIONS = ["gallery", "faults"]
SCENARIOS = ["lab8", "lab13", "verdicts"]
LIST_ITEM = re.compile(r"( *)([-*]|\d+\.) ")


def longfat(*arguments, folder=PAGES):
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        raise SystemExit(f"longfat {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def for_mkdocs(text):
    """The same text for Python-Markdown, which needs an empty line before a list, and twice the indentation."""
    lines, is_code, previous = [], False, ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
            # Words after the language are for tests.
            line = re.sub(r"^(```\w*) .*", r"\1", line)
        elif not is_code:
            if LIST_ITEM.match(line) and previous and not LIST_ITEM.match(previous) and not previous.startswith(" "):
                lines.append("")
            line = " " * (len(line) - len(line.lstrip())) + line
        lines.append(line)
        previous = line
    return "\n".join(lines) + "\n"


def documents():
    shutil.copytree(ROOT / "docs", PAGES / "docs")
    for name in DOCUMENTS:
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, PAGES / name)
    shutil.copy(ROOT / "site/extra.css", PAGES)
    for page in PAGES.rglob("*.md"):
        page.write_text(for_mkdocs(page.read_text()))


def commands():
    """The help of all commands, each below its own heading."""

    def describe(command):
        text = longfat(*command, "--help")
        if command:
            yield f"{'#' * min(1 + len(command), 4)} longfat {' '.join(command)}\n\n```text\n{text}```\n"
        if "\nCommands:\n" in text:
            listed = text.split("\nCommands:\n")[1].split("\n\n")[0]
            for name in re.findall(r"^  ([a-z]\S*)", listed, re.M):
                if name != "help":
                    yield from describe([*command, name])

    page = PAGES / "reference/commands.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("# All commands\n\nThe help that `longfat COMMAND --help` prints.\n\n" + "\n".join(describe([])))
    (PAGES / "reference/python.md").write_text(PYTHON)


PYTHON = """# The Python package

[python.md](../docs/python.md) has examples of everything.

::: longfat
    options:
      show_root_heading: false
      show_root_toc_entry: false

::: longfat.errors

::: longfat.executors

::: longfat.cc

::: longfat.gym

::: longfat.agent

::: longfat.agent_documents
"""


def gallery():
    """A page for each scenario: title, table, verdicts, picture and file."""
    folder = PAGES / "gallery"
    folder.mkdir()
    listed = json.loads(longfat("scenario", "list", "--json"))["scenarios"]
    index = ["# Gallery\n", "Scenarios that the program contains, each simulated with the command on its page.\n"]
    for entry in listed:
        name = entry["name"]
        if entry["collection"] not in COLLECTIONS and name not in SCENARIOS:
            continue
        records = folder / "runs"
        output = longfat("--runs", str(records), "run", name, "--engine", "sim")
        # Positions and names of records differ from run to run.
        shown = "\n".join(line for line in output.splitlines() if not line.startswith(("record: ", "for details")))
        picture = f"{name}.svg"
        longfat("--runs", str(records), "plot", f"{name}/", "--metric", "goodput,rtt", "-o", str(folder / picture))
        shutil.rmtree(records)
        text = longfat("scenario", "show", name)
        (folder / f"{name}.md").write_text(
            f"# {entry['title']}\n\n```sh\nlongfat run {name} --engine sim\nlongfat plot {name}/ --metric goodput,rtt -o {picture}\n```\n\n"
            f"```text\n{shown}\n```\n\n![{entry['title']}]({picture})\n\n## The file\n\n```toml\n{text}\n```\n"
        )
        index.append(f"- [{entry['title']}]({name}.md) (`{name}`)")
    (folder / "index.md").write_text("\n".join(index) + "\n")


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv[1]).resolve())
    ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "100", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    documents()
    commands()
    gallery()
