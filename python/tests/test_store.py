"""Records in an object store, with moto's server."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import longfat

URL = "s3://records/some/place"
# Longer than the server needs to start on a busy machine, seconds.
TIMEOUT_S = 90


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A server with an empty bucket, and the environment for it; its S3 client."""
    moto_server = Path(sys.executable).with_name("moto_server")
    if not moto_server.exists():
        pytest.skip("moto_server is not installed beside this Python")
    log = tmp_path / "log"
    with log.open("w") as output:
        server = subprocess.Popen([moto_server, "-H", "127.0.0.1", "-p", "0"], stdout=output, stderr=output)
    try:
        begin = time.monotonic()
        while not (found := re.search(r"http://\S+", log.read_text())):
            assert server.poll() is None and time.monotonic() - begin < TIMEOUT_S, log.read_text()
            time.sleep(0.1)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": found[0],
            "AWS_ALLOW_HTTP": "true",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }.items():
            monkeypatch.setenv(name, value)
        import boto3

        client = boto3.client("s3", region_name="us-east-1", endpoint_url=found[0])
        client.create_bucket(Bucket="records")
        yield client
    finally:
        server.kill()
        server.wait()


def listed(program):
    """The records in the store as the program lists them, newest last."""
    return json.loads(subprocess.check_output([program, "--runs", URL, "ls", "--json"]))


def test_a_record_in_a_store_is_written_listed_and_opened(program, scenario, store, tmp_path, monkeypatch):
    local = longfat.run(scenario, seed=4)
    written = longfat.run(scenario, seed=4, runs=URL)
    [entry] = listed(program)
    assert entry["path"].startswith(f"{URL}/short/run=") and not entry["partial"]
    # Repeated with an empty cache.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    by_id = longfat.open(entry["id"], runs=URL)
    by_address = [longfat.open(address) for address in (entry["path"], entry["path"] + "/")]
    for run in (written, *by_address, longfat.open("last", runs=URL), by_id):
        assert run.summary["flows"] == local.summary["flows"] and run.verdict == local.verdict
        for name in ("flows", "links", "events"):
            assert getattr(run, name).to_arrow().equals(getattr(local, name).to_arrow()), name
        assert run.scenario_toml == local.scenario_toml and not run.partial
        assert run.plot("cwnd").svg == by_id.plot("cwnd").svg
    for key in ("none", f"{URL}/short/run=none"):
        with pytest.raises(longfat.BadInput, match="none"):
            longfat.open(key, runs=URL)


def test_all_runs_in_a_store_can_be_read_as_one_data_set(program, scenario, store):
    import polars

    for seed in (1, 2):
        longfat.run(scenario.with_({"links.h1-h2.forward.loss": "1%"}), seed=seed, runs=URL)
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "aws_allow_http": "true",
    }
    flows = polars.scan_parquet(f"{URL}/**/flows.parquet", hive_partitioning=True, storage_options=options).collect()
    runs = {entry["id"]: longfat.open(entry["path"]) for entry in listed(program)}
    assert len(runs) == 2 and set(flows["run"]) == runs.keys()
    for id, run in runs.items():
        own = flows.filter(polars.col("run") == id)
        assert own["snd_cwnd_segs"].to_list() == run.flows.to_polars()["snd_cwnd_segs"].to_list()


def test_operations_that_a_store_does_not_support_are_refused(scenario, program, store):
    with pytest.raises(longfat.BadInput, match="progress"):
        longfat.run(scenario, runs=URL, progress=print)
    with pytest.raises(longfat.BadInput, match="directory"):
        longfat.sweep(scenario, runs=URL)
    assert listed(program) == [] and "Contents" not in store.list_objects_v2(Bucket="records")
