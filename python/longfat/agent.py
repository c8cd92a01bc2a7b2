"""Measurement points: a client of ``longfat agent``'s HTTP interface. It needs the standard library only::

    point = longfat.Agent("http://127.0.0.1:4863")
    for (sender, receiver), verdict in point.verdicts().items():
        print(sender, receiver, verdict)

Documents are dictionaries as in the interface's OpenAPI description; :mod:`longfat.agent_documents` has their types. Times in them are
microseconds since 1970.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from longfat._run import Verdict
from longfat.errors import BadInput, Error

if TYPE_CHECKING:
    from longfat.agent_documents import (
        AlertsDocument,
        CalendarDocument,
        DirectoryDocument,
        Explained,
        MeshDocument,
        NewReservation,
        PairDocument,
        PlanDocument,
        Status,
        TestRow,
    )

__all__ = ["Agent", "AgentError"]

# The address in the example of agent.toml.
_DEFAULT_URL = "http://127.0.0.1:4863"
# Phases in which a reservation has ended.
_OVER = ("finished", "failed", "not_run")
# Separates the evidence of a test from the change that would remove the limit.
_TO_FIX_IT = "; to fix it: "
# Pause between requests for the state of a reservation, seconds.
_POLL_S = 0.5

Time = Union[datetime, float]
"""A time, or seconds since 1970."""


class AgentError(Error):
    """A point refused a request, or does not reply."""

    status: Optional[int]
    """The status of the response (HTTP), as in 401 for an invalid token and 403 for a missing scope; ``None`` without a response."""

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirections: points do not redirect, and another server must not receive the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Agent:
    """A measurement point, whose interface is switched on by ``[http]`` of agent.toml.

    A proxy of the environment (``http_proxy``) is used, but not for addresses of this machine: 127.0.0.1, ::1 and localhost.

    :param url: its address.
    :param token: a token of ``longfat agent token create``, for methods that change something. Reading needs one with the scope
        ``read`` if agent.toml has ``read = "token"``.
    :param timeout_s: timeout of a request, seconds. The point replies within 30 s, or with an error.
    """

    def __init__(self, url: str = _DEFAULT_URL, token: Optional[str] = None, timeout_s: float = 40.0) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise BadInput(f"{url!r} is not the address of a measurement point: write http://HOST:PORT")
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._token = token.strip() if token else None
        # Without proxies: a proxy would connect to its own loopback addresses, and receive the token.
        direct = [urllib.request.ProxyHandler({})] if _is_loopback(url) else []
        self._opener = urllib.request.build_opener(_NoRedirect, *direct)

    def __repr__(self) -> str:
        return f"<longfat.Agent {self.url}>"

    # Reading

    def mesh(self) -> MeshDocument:
        """The points, and all pairs of points with what limits them, worst first."""
        return self._get("/api/v1/mesh")

    def directory(self) -> DirectoryDocument:
        """The points that announce themselves, with their places, networks and capabilities."""
        return self._get("/api/v1/directory")

    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """What limits each pair whose tests have found a cause, by sender and receiver; the worst pair is the first.

        The evidence is the cause in words, and the cause that the last test found if it differs. :meth:`verdict_of` has the evidence
        of one test.
        """
        found = {}
        for pair in self.mesh()["pairs"]:
            words = [pair["cause_text"], pair["problem"]]
            if pair["unconfirmed_text"]:
                words.append(f"the last test found: {pair['unconfirmed_text']}")
            evidence = [text for text in words if text]
            verdict = Verdict.of({"verdict": pair["cause"], "evidence": evidence})
            if verdict is not None:
                found[pair["from"], pair["to"]] = verdict
        return found

    @staticmethod
    def verdict_of(test: Optional[TestRow]) -> Optional[Verdict]:
        """What limited a test, the ``result`` of a reservation; ``None`` without a verdict."""
        if test is None:
            return None
        evidence, _, remedy = (test["evidence"] or "").partition(_TO_FIX_IT)
        return Verdict.of(
            {"verdict": test["verdict"], "evidence": [evidence] if evidence else [], "remedy": remedy or None}
        )

    def pair(self, from_: str, to: str, *, since: Optional[Time] = None, limit: Optional[int] = None) -> PairDocument:
        """One pair over time: its tests (the newest first), hourly averages of older ones, and the changes of its cause.

        :param since: only tests that started at or after this time.
        :param limit: maximum number of tests, 1000 if absent.
        """
        return self._get("/api/v1/pair", {"from": from_, "to": to, "since_us": _us(since), "limit": limit})

    def results(
        self,
        from_: Optional[str] = None,
        to: Optional[str] = None,
        *,
        kind: Optional[str] = None,
        since: Optional[Time] = None,
        limit: Optional[int] = None,
    ) -> list[TestRow]:
        """Tests and their figures, the newest first: ``pandas.DataFrame(point.results())``.

        :param from_: the point that sends.
        :param to: the point that receives.
        :param kind: throughput, latency, diagnose, probe, trace, stream or transfer.
        :param since: only tests that started at or after this time.
        :param limit: maximum number of tests, 1000 if absent.
        """
        query = {"from": from_, "to": to, "kind": kind, "since_us": _us(since), "limit": limit}
        return self._get("/api/v1/results", query)["tests"]

    def calendar(self, point: Optional[str] = None, *, seconds: Optional[int] = None) -> CalendarDocument:
        """The occupied slots of a point.

        :param point: the point; this one if absent.
        :param seconds: how far into the future, a day if absent.
        """
        return self._get("/api/v1/calendar", {"point": point, "seconds": seconds})

    def plan(self, from_: str, to: str, size_bytes: int, deadline: Time) -> PlanDocument:
        """Which rate, settings and slot a transfer needs to be complete by a deadline. Reserves nothing: :meth:`reserve` takes the
        plan's ``reservation``.

        :param size_bytes: the payload, bytes.
        :param deadline: when it must be complete.
        """
        query = {"from": from_, "to": to, "bytes": size_bytes, "deadline_us": _us(deadline)}
        return self._get("/api/v1/plan", query)

    def reservation(self, id: str) -> Explained:
        """The state of a reservation, with the rule or the conflict that prevents it, and with its result.

        :param id: the reservation, as in ``a/12``; of a recurring test its name, which gives the newest one.
        """
        found = self._get("/api/v1/reservation", {"id": id})["reservations"]
        if not found:
            raise BadInput(f"there is no reservation {id!r}")
        return found[0]

    def wait(self, id: str, until: Optional[str] = None, *, timeout_s: Optional[float] = None) -> Explained:
        """Waits for the end of a reservation, or for an earlier phase.

        :param until: also returns in this phase: ``"running"`` is the start of a slot.
        :param timeout_s: raises ``TimeoutError`` after this time; without it there is no limit.

        A refused or failed reservation is returned too: see its ``phase`` and ``text``.
        """
        begin = time.monotonic()
        while True:
            found = self.reservation(id)
            if found["phase"] in _OVER or found["phase"] == until:
                return found
            if timeout_s is not None and time.monotonic() - begin > timeout_s:
                raise TimeoutError(f"after {timeout_s:g} s: {found['text']}")
            time.sleep(_POLL_S)

    def alerts(self) -> AlertsDocument:
        """The causes that users have acknowledged, and the pairs whose alerts are muted."""
        return self._get("/api/v1/alerts")

    def status(self) -> Status:
        """The state of this point."""
        return self._get("/api/v1/status")

    def metrics(self) -> str:
        """Metrics in the text format of Prometheus."""
        return self._request("/metrics", None).decode()

    def description(self) -> dict[str, Any]:
        """The OpenAPI 3.1 description of the interface."""
        return self._get("/api/v1/openapi.json")

    # Changes, which need a token

    def reserve(
        self,
        reservation: Union[NewReservation, str],
        to: Optional[str] = None,
        kind: str = "throughput",
        *,
        duration_s: Optional[float] = None,
        rate_bps: Optional[int] = None,
        congestion: Optional[str] = None,
        parallel: int = 1,
        omit_s: float = 0.0,
        in_s: float = 0.0,
        within_s: Optional[float] = None,
        priority: int = 0,
    ) -> Explained:
        """Reserves a test between two points, or a slot for the caller's own transfer. Needs a token with the scope ``reserve``.

        ``point.reserve("a", "b", "latency")`` or ``point.reserve(plan["reservation"])``. A rule or conflict that prevents it is no
        exception: see ``phase`` and ``text``.

        :param reservation: the point that sends, or the document of a :meth:`plan`, which has all other arguments.
        :param to: the point that receives.
        :param kind: throughput, latency, diagnose, probe, trace, stream, or transfer for the caller's own transfer.
        :param duration_s: its duration without ``omit_s``; absent: that of its kind.
        :param rate_bps: UDP at this rate, of all streams together; of a transfer the maximum rate of the caller; of a probe its
            maximum load.
        :param congestion: of a throughput test by TCP the sender's congestion control; absent: that of the system.
        :param parallel: of a throughput test the number of parallel streams.
        :param omit_s: of a throughput test the time before the duration that no figure includes, in whole milliseconds.
        :param in_s: time until the earliest start.
        :param within_s: time from the earliest to the latest start, ten minutes if absent.
        :param priority: displaces reservations of lower priority.
        """
        if isinstance(reservation, str):
            if to is None:
                raise BadInput("reserve needs two points: reserve(FROM, TO)")
            document: dict[str, Any] = {"from": reservation, "to": to, "kind": kind, "priority": priority}
            document["in_us"] = _microseconds(in_s)
            document.update(duration_us=_microseconds(duration_s), rate_bps=rate_bps)
            document.update(congestion=congestion, parallel=parallel, omit_us=_microseconds(omit_s))
            if within_s is not None:
                document["within_us"] = _microseconds(within_s)
        else:
            document = dict(reservation)
        return self._post("/api/v1/reserve", document)["reservations"][0]

    def cancel(self, id: str, reason: str = "") -> Explained:
        """Cancels a reservation of the same token (scope ``reserve``), or any reservation (scope ``cancel``)."""
        return self._post("/api/v1/cancel", {"id": id, "reason": reason})["reservations"][0]

    def report(
        self, id: str, duration_s: float, size_bytes: Optional[int] = None, *, error: Optional[str] = None
    ) -> Explained:
        """Reports a transfer of the same token (scope ``report``), which ends its slot; the result has what limited it.

        :param duration_s: the time that the transfer took.
        :param size_bytes: payload that the other end has received; absent: the goodput is that of the TCP connections that the point saw.
        :param error: why the transfer is incomplete.
        """
        document = {"id": id, "duration_us": _microseconds(duration_s), "bytes": size_bytes, "error": error}
        return self._post("/api/v1/report", document)["reservations"][0]

    def acknowledge(self, from_: str, to: str, text: str = "", *, since: Optional[Time] = None) -> AlertsDocument:
        """Acknowledges the cause of a pair (scope ``alerts``): no alert for it is sent until the cause changes.

        :param text: a note for other users.
        :param since: start of the cause, ``since_us`` of the pair divided by a million; absent: the present cause.
        """
        return self._post("/api/v1/acknowledge", {"from": from_, "to": to, "text": text, "since_us": _us(since)})

    def mute(self, from_: str, to: str, seconds: int, text: str = "") -> AlertsDocument:
        """Mutes the alerts of pairs for a time (scope ``alerts``); 0 ends a mute, ``"*"`` stands for all points."""
        return self._post("/api/v1/mute", {"from": from_, "to": to, "seconds": seconds, "text": text})

    # Requests

    def _get(self, path: str, query: Optional[Mapping[str, Any]] = None) -> Any:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        # Spaces as %20: the interface follows RFC 3986, in which "+" is a plus sign.
        text = urllib.parse.urlencode(given, quote_via=urllib.parse.quote)
        return _parsed(self._request(f"{path}?{text}" if text else path, None))

    def _post(self, path: str, document: Mapping[str, Any]) -> Any:
        return _parsed(self._request(path, json.dumps(document).encode()))

    def _request(self, path: str, body: Optional[bytes]) -> bytes:
        headers = {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with self._opener.open(request, timeout=self.timeout_s) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            with error:
                try:
                    text = error.read().decode(errors="replace").strip()
                except (OSError, http.client.HTTPException):
                    text = ""
            text = text or str(error.reason)
            if error.code == 400:
                raise BadInput(text) from None
            raise AgentError(f"{self.url}: {text}", error.code) from None
        # URLError is an OSError, as are timeouts within a response. A response that ends early is not.
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise AgentError(f"cannot reach the measurement point {self.url}: {reason}") from error


def _is_loopback(url: str) -> bool:
    """Whether a URL names this machine by a loopback address."""
    try:
        host = (urllib.parse.urlsplit(url).hostname or "").rstrip(".")
    except ValueError as error:
        raise BadInput(f"{url!r} is not the address of a measurement point: {error}") from None
    # RFC 6761, section 6.3.
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise AgentError(f"the response is not a document of a measurement point: {error}") from None


def _us(when: Optional[Time]) -> Optional[int]:
    """A time as microseconds since 1970."""
    if when is None:
        return None
    return _microseconds(when.timestamp() if isinstance(when, datetime) else when)


def _microseconds(seconds: Optional[float]) -> Optional[int]:
    return None if seconds is None else round(seconds * 1e6)
