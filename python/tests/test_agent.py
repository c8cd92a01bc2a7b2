"""The client of measurement points, with two points of the built program on loopback."""

import contextlib
import http.server
import os
import re
import socket
import subprocess
import threading
import time
import typing
from pathlib import Path

import pytest

import agent_documents
import longfat
from conftest import ROOT
from longfat import agent_documents as documents

# Longer than any step of these tests takes on a busy machine, seconds.
TIMEOUT_S = 120
MODULE = ROOT / "python/longfat/agent_documents.py"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Point:
    """A point of the mesh: its directory, and its process while it runs."""

    def __init__(self, program, folder, name):
        self.program, self.folder, self.name = program, folder / name, name
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = None

    def longfat(self, *arguments, **options):
        command = [self.program, "agent", *arguments, "--dir", str(self.folder)]
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout

    def start(self):
        config = self.folder / "agent.toml"
        # Without this line, a machine whose clock is not synchronized pads slots with 34 s.
        text = config.read_text().replace('clock_error = "auto"', 'clock_error = "100ms"')
        config.write_text(f'{text}\n[http]\nlisten = "{self.url[len("http://") :]}"\n')
        self.process = subprocess.Popen(
            [self.program, "agent", "run", "--dir", str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        begin = time.monotonic()
        while True:
            with contextlib.suppress(longfat.AgentError):
                return longfat.Agent(self.url).status()
            assert self.process.poll() is None and time.monotonic() - begin < TIMEOUT_S
            time.sleep(0.1)

    def token(self, name, scope):
        return self.longfat("token", "create", name, "--scope", scope)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    program = os.environ.get("LONGFAT", "")
    if not program:
        pytest.skip("the program was not built: cargo build -p longfat")
    folder = tmp_path_factory.mktemp("mesh")
    a, b = (Point(program, folder, name) for name in "ab")
    try:
        a.longfat("init", "--name", "a", "--listen", f"127.0.0.1:{free_port()}", "--address", "127.0.0.1")
        a.start()
        invitation = a.longfat("invite", "b")
        b.longfat("join", "-", "--listen", f"127.0.0.1:{free_port()}", input=invitation)
        b.start()
        yield a, b
    finally:
        for point in (a, b):
            if point.process is not None:
                point.process.kill()
                point.process.wait()


@pytest.fixture(scope="module")
def point(mesh):
    """A client of point a with all scopes, after a test from a to b."""
    client = longfat.Agent(mesh[0].url, mesh[0].token("all", "reserve,report,alerts"))
    reserved = client.reserve("a", "b", duration_s=1.5, within_s=60)
    ended = client.wait(reserved["id"], timeout_s=TIMEOUT_S)
    assert ended["phase"] == "finished", ended
    return client


def fits(value, kind):
    """Whether a value has a type of `agent_documents`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        fields = kind.__annotations__
        if not isinstance(value, dict) or value.keys() != fields.keys():
            return False
        return all(fits(value[name], field) for name, field in fields.items())
    if origin is typing.Union:
        return any(fits(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return all(fits(one, arguments[0]) for one in value)
    if origin is dict:
        return all(fits(one, arguments[1]) for one in value.values())
    return isinstance(value, (int, float) if kind is float else kind)


def test_types_match_the_openapi_description(point):
    description = point.description()
    text = agent_documents.source(description)
    if os.environ.get("LONGFAT_UPDATE"):
        MODULE.write_text(text)
    assert MODULE.read_text() == text, "LONGFAT_UPDATE=1 scripts/test-python.sh -k description writes it"
    client = (ROOT / "python/longfat/agent.py").read_text()
    assert [path for path in description["paths"] if f'"{path}"' not in client] == []


def test_documents_match_their_types(point):
    for document, kind in [
        (point.mesh(), documents.MeshDocument),
        (point.pair("a", "b"), documents.PairDocument),
        (point.results(), list[documents.TestRow]),
        (point.calendar("b", seconds=3600), documents.CalendarDocument),
        (point.plan("a", "b", 1_000_000, time.time() + 3600), documents.PlanDocument),
        (point.reservation("a/1"), documents.Explained),
        (point.alerts(), documents.AlertsDocument),
        (point.status(), documents.Status),
    ]:
        assert fits(document, kind), (kind, document)
    assert not fits({**point.status(), "name": 1}, documents.Status)
    assert "longfat_" in point.metrics()


def test_the_remedy_of_a_test_is_not_part_of_its_evidence():
    def verdict(evidence):
        return longfat.Agent.verdict_of({"verdict": "receive_window", "evidence": evidence})

    known = verdict("the window was full; to fix it: on d: sysctl -w x=1")
    assert (known.evidence, known.remedy) == (["the window was full"], "on d: sysctl -w x=1")
    assert (verdict("x").evidence, verdict("x").remedy) == (["x"], None)
    assert (verdict(None).evidence, verdict(None).remedy) == ([], None)


def test_a_test_has_figures_and_a_verdict(point):
    [test] = point.results("a", "b", kind="throughput", limit=1)
    assert test["goodput_bps"] > 1e6 and test["state"] == "finished"
    verdict = point.verdict_of(test)
    assert verdict == test["verdict"]
    assert verdict is None or test["evidence"].startswith(verdict.evidence[0])
    assert point.results("b", "a") == []
    begun = test["start_us"] / 1e6
    assert point.results(since=begun + 86_400) == []
    assert [one["id"] for one in point.pair("a", "b", since=begun)["tests"]] == [test["id"]]
    pairs = point.mesh()["pairs"]
    assert [(pair["from"], pair["to"]) for pair in pairs] == [("a", "b")]
    causes = {(pair["from"], pair["to"]): pair["cause"] for pair in pairs if pair["cause"]}
    assert point.verdicts() == causes
    assert all(verdict.evidence for verdict in point.verdicts().values())


def test_a_transfer_is_planned_reserved_and_reported(point):
    plan = point.plan("a", "b", 1_000_000, time.time() + 3600)
    assert plan["is_feasible"] and plan["rate_bps"] > 1e6, plan
    reserved = point.reserve(plan["reservation"])
    with pytest.raises(TimeoutError):
        point.wait(reserved["id"], timeout_s=0)
    running = point.wait(reserved["id"], until="running", timeout_s=TIMEOUT_S)
    assert running["phase"] == "running", running
    reported = point.report(reserved["id"], duration_s=0.5, size_bytes=1_000_000)
    assert point.wait(reserved["id"], timeout_s=TIMEOUT_S)["phase"] == "finished", reported
    [test] = point.results(kind="transfer")
    assert test["goodput_bps"] == pytest.approx(16e6)
    hopeless = point.plan("a", "b", 10**18, time.time() + 60)
    assert not hopeless["is_feasible"] and hopeless["reservation"] is None and hopeless["reason"]


def test_reservations_are_refused_and_cancelled(point):
    refused = point.reserve("a", "b", duration_s=90)
    ended = point.wait(refused["id"], timeout_s=TIMEOUT_S)
    assert ended["phase"] == "not_run" and "max_duration" in ended["text"]
    later = point.reserve("a", "b", "latency", duration_s=1, in_s=3000)
    assert point.cancel(later["id"], "not needed")["id"] == later["id"]
    assert "not needed" in point.wait(later["id"], timeout_s=TIMEOUT_S)["text"]


def test_a_requested_test_has_options(point):
    # Each kernel has reno.
    reserved = point.reserve("a", "b", duration_s=1.5, congestion="reno", parallel=2, omit_s=0.5, within_s=60)
    ended = point.wait(reserved["id"], timeout_s=TIMEOUT_S)
    assert ended["phase"] == "finished", ended
    assert ended["result"]["options"] == "congestion=reno parallel=2 omit=500ms"
    with pytest.raises(longfat.BadInput, match="no option parallel"):
        point.reserve("a", "b", "latency", parallel=2)


def test_alerts_are_muted(point):
    muted = point.mute("*", "b", 600, "rebuilt")
    assert [(mute["from"], mute["to"], mute["text"]) for mute in muted["mutes"]] == [("*", "b", "rebuilt")]
    assert point.mute("*", "b", 0)["mutes"] == []
    for pair in point.mesh()["pairs"]:
        if pair["cause"]:
            acknowledged = point.acknowledge(pair["from"], pair["to"], "known")["acknowledged"]
            assert acknowledged[0]["text"] == "known"
    with pytest.raises(longfat.BadInput, match="no point of the mesh"):
        point.mute("*", "z", 600)


def test_errors_state_their_cause(mesh, point):
    with pytest.raises(longfat.AgentError, match="token") as refused:
        longfat.Agent(point.url).reserve("a", "b")
    assert refused.value.status == 401
    reader = longfat.Agent(point.url + "/", mesh[0].token("reader", "report"))
    with pytest.raises(longfat.AgentError, match="scope reserve") as refused:
        reader.reserve("a", "b")
    assert refused.value.status == 403
    with pytest.raises(longfat.BadInput, match="no point of the mesh"):
        point.plan("a", "z", 1, time.time() + 60)
    with pytest.raises(longfat.BadInput, match="reserve needs two points"):
        point.reserve("a")
    with pytest.raises(longfat.BadInput, match="http://HOST:PORT"):
        longfat.Agent("file:///etc/passwd")
    with pytest.raises(longfat.AgentError, match="cannot reach") as unreachable:
        longfat.Agent(f"http://127.0.0.1:{free_port()}").mesh()
    assert unreachable.value.status is None


@pytest.mark.parametrize(
    "host, is_direct",
    [("127.0.0.1", True), ("127.1.2.3", True), ("localhost", True), ("LOCALHOST.", True), ("[::1]", True)]
    + [("[::ffff:127.0.0.1]", True), ("point.example", False), ("192.0.2.1", False), ("[2001:db8::1]", False)],
)
def test_a_proxy_is_used_only_for_other_machines(host, is_direct, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    opened = longfat.Agent(f"http://{host}:4863")._opener
    proxies = [handler.proxies.get("http") for handler in opened.handlers if hasattr(handler, "proxies")]
    assert proxies == ([] if is_direct else ["http://127.0.0.1:9"])


def test_a_point_on_this_machine_is_reached_in_spite_of_a_proxy(monkeypatch):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"pairs": []}')

        def log_message(self, *_):
            pass

    # Nothing listens at the proxy's port.
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert longfat.Agent(f"http://127.0.0.1:{server.server_port}").verdicts() == {}
        server.shutdown()


def test_an_address_that_is_no_url_is_bad_input():
    with pytest.raises(longfat.BadInput, match="not the address"):
        longfat.Agent("http://[::1")


def test_the_token_is_not_sent_to_a_redirection():
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):
            requests.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"<html")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        other = longfat.Agent(f"http://127.0.0.1:{server.server_port}", "secret")
        with pytest.raises(longfat.AgentError) as refused:
            other.cancel("a/1")
        with pytest.raises(longfat.AgentError, match="not a document"):
            other.status()
        server.shutdown()
    assert refused.value.status == 307 and requests == ["/api/v1/cancel", "/api/v1/status"]


@pytest.mark.parametrize(
    ("status", "message"), [("200 OK", "cannot reach"), ("503 Service Unavailable", "Service Unavailable")]
)
def test_a_response_that_ends_early_is_an_agent_error(status, message):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\n{{".encode())

        threading.Thread(target=reply, daemon=True).start()
        point = longfat.Agent(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(longfat.AgentError, match=message):
            point.status()


def test_examples_run(mesh, point, tmp_path, monkeypatch):
    """The examples of docs/python.md that need a measurement point."""
    monkeypatch.chdir(tmp_path)
    Path("backup.token").write_text(mesh[0].token("backup", "reserve,report"))
    text = (ROOT / "docs/python.md").read_text()
    examples = re.findall(r"^```python agent\n(.*?)^```$", text, re.M | re.S)
    names = {"longfat": longfat}
    for example in examples:
        exec(example.replace("http://127.0.0.1:4863", point.url), names)
    assert len(examples) >= 2 and names["ended"]["phase"] == "finished"
