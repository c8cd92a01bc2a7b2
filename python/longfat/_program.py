"""The program ``longfat``, which the wheel contains."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Sequence

from longfat.errors import BadInput, Error, Missing


def program() -> str:
    """The path of the program: that in ``LONGFAT``, else the one of this Python environment, else the first in ``PATH``."""
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


# Time for the program to complete its record and to restore the machine after an interruption, seconds.
_END_TIMEOUT_S = 60.0


def run_json(arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> dict[str, Any]:
    """Runs the program and returns its document. Ctrl-C ends it cleanly, as in a terminal."""
    ended = _run([program(), *arguments, "--json"])
    if ended.returncode in accepted and ended.stdout.strip():
        return json.loads(ended.stdout)
    if ended.returncode in _INTERRUPTED:
        raise KeyboardInterrupt
    raise _EXCEPTIONS.get(ended.returncode, Error)(_message(ended))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess:
    # A second signal ends the program at once. Therefore it runs in a separate session: Ctrl-C on a terminal and an interruption by Jupyter
    # go to the process group of Python and do not reach it. It receives only the signal of _end.
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
    except (FileNotFoundError, PermissionError) as error:
        raise Missing(f"cannot execute the program longfat: {error}") from None
    try:
        stdout, stderr = process.communicate()
    except BaseException:
        _end(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _end(process: subprocess.Popen) -> None:
    """Ends the program: after one signal it has time to end cleanly; another interruption of Python kills it."""
    try:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_END_TIMEOUT_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.communicate()


def _message(ended: subprocess.CompletedProcess) -> str:
    """The message of a failure: from the JSON document, else the whole standard error."""
    for text in (ended.stdout, ended.stderr):
        try:
            document = json.loads(text)
            error = document.get("error", document)
            return error["message"] if isinstance(error, dict) else str(error)
        except (ValueError, KeyError, AttributeError):
            continue
    return ended.stderr.strip() or f"longfat ended with exit code {ended.returncode}"
