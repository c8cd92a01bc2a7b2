"""Helpers of the tests."""

import os
from pathlib import Path

import pytest

import longfat

ROOT = Path(__file__).resolve().parents[2]

# Two hosts, two variants, one second of simulated time.
TEXT = """\
title = "A short path"
duration = "1s"
sample = "10ms"
[hosts]
h1.address = "10.0.0.1/8"
h2.address = "10.0.0.2/8"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "100mbit", delay = "10ms", queue = "250kB" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
"""


@pytest.fixture
def scenario() -> longfat.Scenario:
    return longfat.Scenario.from_text(TEXT, "short")


@pytest.fixture
def program() -> str:
    """The built program, for tests that need it."""
    path = os.environ.get("LONGFAT", "")
    if not path:
        pytest.skip("the program was not built: cargo build -p longfat")
    return path
