"""The program ``longfat``, which the wheel contains."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Sequence

from longfat.errors import BadInput, Error, Missing


def program() -> str:
    """The path of the program: ``LONGFAT``, else that of this environment, else the first in ``PATH``."""
    named = os.environ.get("LONGFAT")
    if named:
        return named
    own = Path(sysconfig.get_path("scripts"), "longfat")
    found = str(own) if own.exists() else shutil.which("longfat")
    if found is None:
        raise Missing("the program longfat is not installed: reinstall the package, or set LONGFAT to its path")
    return found


# The exit codes of the program (docs/command-line.md).
_EXCEPTIONS = {2: BadInput, 4: Missing}
_INTERRUPTED = (130, -2)


def run_json(arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> dict[str, Any]:
    """Runs the program and returns its document."""
    ended = subprocess.run(
        [program(), *arguments, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if ended.returncode in accepted and ended.stdout.strip():
        return json.loads(ended.stdout)
    if ended.returncode in _INTERRUPTED:
        raise KeyboardInterrupt
    raise _EXCEPTIONS.get(ended.returncode, Error)(_message(ended))


def _message(ended: subprocess.CompletedProcess) -> str:
    """The message of a failure: with --json a document, else the last lines of standard error."""
    for text in (ended.stdout, ended.stderr):
        try:
            document = json.loads(text)
            error = document.get("error", document)
            return error["message"] if isinstance(error, dict) else str(error)
        except (ValueError, KeyError, AttributeError):
            continue
    return ended.stderr.strip() or f"longfat ended with exit code {ended.returncode}"
