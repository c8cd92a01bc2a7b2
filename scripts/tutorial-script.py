#!/usr/bin/env python3
"""Prints a tutorial as a bash script that does what its page says, in order: it saves the files, executes the commands as printed, and
executes the Python examples in one session. scripts/test-tutorials.sh executes the script.

    tutorial-script.py PAGE    a page of the repository, as in docs/tutorials/slow-transfer.md
    tutorial-script.py --list  the pages below "Tutorials" in site/mkdocs.yml

Only fenced blocks count, as in crates/cli/tests/tutorials.rs: `sh`, `python`, and blocks with the name of a file, as in `toml my.toml`. The
script ends at the first command that fails, with the exit code of this command.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
# The tutorial within a page that also is a reference: the texts at its beginning and after its end.
PARTS = {
    "README.md": ("## Install", "**From source**"),
    "docs/agent.md": ("## A mesh in one command", "## Commands"),
}
# Commands that the page shows because they are refused.
REFUSED = {"longfat agent request a b --duration 90s --dir a"}
# Commands that run until Ctrl-C, which a reader presses when this has been printed.
UNTIL = {"longfat agent demo": "receive buffer of washington (was"}
# A reader types the next command when a measurement point is ready.
POINT = re.compile(r"longfat agent run --dir (\S+) &")
# Ends a file in the script; no page has this line.
END = "END OF THE FILE"

PRELUDE = f"""\
set -eE
# Background jobs are as in an interactive shell: they have numbers, and Ctrl-C ends them.
set -m
trap 'failed $? "$BASH_COMMAND"' ERR
failed() {{
    echo "exit code $1: $2"
    exit "$1"
}}
# At most 15 minutes: the demo of a mesh needs five on an idle machine.
wait_until() {{
    for ((tried = 0; tried < 1800; tried++)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.5
    done
    echo "not within 15 minutes: $*"
    return 1
}}
refused() {{
    if "$@"; then
        echo "it succeeded, and the page says that it is refused"
        return 1
    fi
}}
run_until() {{
    local text=$1 job code=0
    shift
    "$@" >output 2>&1 &
    job=$!
    # Until then, or until the command ends by itself.
    wait_until eval 'grep -qF "$text" output || ! kill -0 $job' || {{ cat output; return 1; }}
    kill -INT $job 2>/dev/null || true
    wait $job || code=$?
    grep -qF "$text" output || [ $code != 0 ] || code=1
    cat output
    return $code
}}
exec 2>&1
set -v
"""


def tutorials():
    """The pages below "Tutorials" in the navigation of the site."""
    lines = (ROOT / "site/mkdocs.yml").read_text().splitlines()
    start = lines.index("  - Tutorials:") + 1
    pages = []
    for line in lines[start:]:
        found = re.fullmatch(r" {6}- (\S+\.md)", line)
        if not found:
            break
        pages.append(found[1])
    return pages


def commands(text):
    """The lines of a shell example."""
    for line in text.splitlines():
        if line in REFUSED:
            yield f"refused {line}"
        elif line in UNTIL:
            yield f"run_until '{UNTIL[line]}' {line}"
        else:
            yield line
            point = POINT.fullmatch(line)
            if point:
                yield f"wait_until longfat agent status --dir {point[1]}"


def script(page):
    text = (ROOT / page).read_text()
    if page in PARTS:
        begin, end = PARTS[page]
        text = text.split(begin)[1].split(end)[0]
    lines, python = [PRELUDE], []

    def run_python():
        if python:
            lines.extend([f"cat >tutorial.py <<'{END}'", *python, END, "python3 tutorial.py"])
            python.clear()

    for language, name, content in BLOCK.findall(text):
        if language == "python" and not name:
            python.append(content)
            continue
        if language == "sh" or name:
            run_python()
        if language == "sh":
            lines.extend(commands(content))
        elif name:
            lines.extend([f"cat >{name} <<'{END}'", content.rstrip("\n"), END])
    run_python()
    if len(lines) == 1:
        raise SystemExit(f"{page} has no commands")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print("\n".join(tutorials()) if sys.argv[1] == "--list" else script(sys.argv[1]))
