"""The documents of ``longfat agent``'s HTTP interface.

Written from its OpenAPI description by a test: ``LONGFAT_UPDATE=1 scripts/test-python.sh -k description``.
"""

from typing import Literal, Optional, TypedDict

__all__ = [
    "Acknowledgement",
    "AlertsDocument",
    "Allowance",
    "CalendarDocument",
    "Coordinates",
    "DirectoryDocument",
    "DirectoryPoint",
    "Explained",
    "HourRow",
    "MemberStatus",
    "MeshDocument",
    "MeshPair",
    "MeshPoint",
    "Mute",
    "NamedChange",
    "NearestHop",
    "NewReservation",
    "PairDocument",
    "PairState",
    "PlanDocument",
    "PlannedSetting",
    "PlannedSlot",
    "ReservationsDocument",
    "ResultsDocument",
    "SlotReport",
    "State",
    "Status",
    "TaskStatus",
    "TestCounts",
    "TestRow",
]

# A position on the Earth (WGS 84).
Coordinates = TypedDict(
    "Coordinates",
    {
        # Latitude, degrees; north is positive.
        "latitude_deg": float,
        # Longitude, degrees; east is positive.
        "longitude_deg": float,
    },
)

# A point of the mesh.
MeshPoint = TypedDict(
    "MeshPoint",
    {
        # Its name.
        "name": str,
        # Its address.
        "address": str,
        # Whether a connection with it is open; `null` for this point. Connections without traffic are closed.
        "is_connected": Optional[bool],
        # Why the last connection could not be opened.
        "failure": Optional[str],
        # Its place in words.
        "place": Optional[str],
        # Its position; `null` if it has announced none.
        "coordinates": Optional[Coordinates],
    },
)

# no_result: Its tests get no result.
# limited: Something limits TCP before the path does.
# good: TCP gets the rate of the path.
# unknown: No test has found a cause yet.
PairState = Literal["no_result", "limited", "good", "unknown"]

# A user's acknowledgement of a pair's cause.
Acknowledgement = TypedDict(
    "Acknowledgement",
    {
        # The point that sends.
        "from": str,
        # The point that receives.
        "to": str,
        # Start of the cause, microseconds since 1970: a later cause is not acknowledged.
        "since_us": int,
        # The user who did this.
        "user": str,
        # A note.
        "text": str,
        # When the user did this, microseconds since 1970.
        "at_us": int,
    },
)

# Number of a pair's tests by outcome.
TestCounts = TypedDict(
    "TestCounts",
    {
        # Completed.
        "finished": int,
        # Started and did not complete.
        "failed": int,
        # Refused by a rule.
        "refused": int,
        # Tests that were not run for another reason.
        "not_run": int,
    },
)

# One direction between two points.
MeshPair = TypedDict(
    "MeshPair",
    {
        # The point that sends.
        "from": str,
        # The point that receives.
        "to": str,
        # Its state.
        "state": PairState,
        # The cause that limits it.
        "cause": Optional[str],
        # The cause in words, as in `receive buffer of d`.
        "cause_text": Optional[str],
        # Start of the first test that found this cause, microseconds since 1970.
        "since_us": Optional[int],
        # The last test found this other cause; one more test decides.
        "unconfirmed_text": Optional[str],
        # Goodput of the last throughput test by TCP; without one, of the last diagnosis, bit/s.
        "goodput_bps": Optional[float],
        # Best goodput of such a test, bit/s.
        "best_goodput_bps": Optional[float],
        # Share of lost packets in the last latency test; without one, of retransmitted segments in the last
        # throughput test.
        "loss_share": Optional[float],
        # Smallest round-trip time of the last test, microseconds.
        "min_rtt_us": Optional[float],
        # Typical round-trip time of the last latency test; without one, of the last throughput test, microseconds.
        "typical_rtt_us": Optional[float],
        # Capacity of the narrowest link that the last probe found, bit/s of IP; `null` if it is inconclusive.
        "capacity_bps": Optional[float],
        # Available bandwidth that the last probe found, bit/s of IP; `null` if it is inconclusive.
        "available_bps": Optional[float],
        # Path MTU that the last trace found, bytes of IP.
        "mtu_bytes": Optional[int],
        # Number of hops to the other end that the last trace found.
        "hops": Optional[int],
        # Start of the test whose goodput is `goodput_bps`: the last throughput test by TCP with the options that
        # decide on the pair; without one, the last diagnosis; microseconds since 1970.
        "tested_us": Optional[int],
        # Start of the last throughput test by TCP with a result, whatever its options; without one, of the last
        # diagnosis; microseconds since 1970.
        "last_test_us": Optional[int],
        # The options of the test at `tested_us`, as in `parallel=4`; `null` if it had none. Tests with other options
        # do not decide on the pair.
        "options": Optional[str],
        # Why its tests get no result.
        "problem": Optional[str],
        # A user has acknowledged this cause.
        "acknowledgement": Optional[Acknowledgement],
        # Its alerts are muted until then, microseconds since 1970.
        "muted_until_us": Optional[int],
        # Number of tests.
        "tests": TestCounts,
    },
)

# The mesh as seen by this point.
MeshDocument = TypedDict(
    "MeshDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # The name of this point.
        "point": str,
        # When the document was made, microseconds since 1970.
        "now_us": int,
        # The points, by name.
        "points": list[MeshPoint],
        # The pairs that have tests, worst first.
        "pairs": list[MeshPair],
    },
)

# What a point allows to whom.
Allowance = TypedDict(
    "Allowance",
    {
        # `default` (all members that no other entry names), `net PREFIX`, or `user NAME@POINT`.
        "to": str,
        # Longest test, microseconds; `null`: not limited.
        "max_duration_us": Optional[int],
        # Largest rate, bit/s; `null`: not limited.
        "max_rate_bps": Optional[int],
        # Whether tests by TCP are allowed.
        "tcp": bool,
        # Whether tests by UDP are allowed.
        "udp": bool,
    },
)

# The hop of a path that is closest to a point.
NearestHop = TypedDict(
    "NearestHop",
    {
        # Its number in the look-up, from 1.
        "number": int,
        # Its address.
        "address": str,
        # The number of leading bits that the hop has in common with the point: the length of an announced prefix that
        # contains it, or bits in common with the point's address.
        "common_bits": int,
    },
)

# A point in the directory.
DirectoryPoint = TypedDict(
    "DirectoryPoint",
    {
        # Its name.
        "name": str,
        # Where it listens, `HOST:PORT`; of a host of a lookup service, its address without a port.
        "address": str,
        # Its place in words.
        "place": Optional[str],
        # Its position.
        "coordinates": Optional[Coordinates],
        # Its networks: prefixes, or names.
        "networks": list[str],
        # The kinds of tests that it allows to some users, and `udp` for tests at a rate.
        "capabilities": list[str],
        # What it allows to whom.
        "allows": list[Allowance],
        # Share of the next day in which no exclusive test may run, in tenths; `null` if it has not announced itself.
        "busy_share": Optional[float],
        # Distance from the position of the look-up, km.
        "distance_km": Optional[float],
        # The hop of the look-up that is closest to it.
        "nearest_hop": Optional[NearestHop],
    },
)

# Points of the directory.
DirectoryDocument = TypedDict(
    "DirectoryDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # The points: the closest first, if the look-up names a position or hops; else by name.
        "points": list[DirectoryPoint],
    },
)

# running: The test runs.
# finished: The test completed.
# failed: The test was started and did not complete.
# not_run: The test was not started.
State = Literal["running", "finished", "failed", "not_run"]

# A test in the archive.
TestRow = TypedDict(
    "TestRow",
    {
        # The reservation.
        "id": str,
        # The point that led it, and measured.
        "from": str,
        # The other end.
        "to": str,
        # The kind of test.
        "kind": str,
        # The options with which a throughput test was measured, as in `congestion=bbr parallel=4 omit=2s`; `null` if
        # it had none.
        "options": Optional[str],
        # The recurring test that it belongs to.
        "task": Optional[str],
        # Start of its slot, or the earliest requested start if it had no slot; microseconds since 1970, UTC.
        "start_us": int,
        # Its length, microseconds.
        "duration_us": int,
        # Its state.
        "state": State,
        # Why it was not run, or failed.
        "reason": Optional[str],
        # The kind of reason, as in `rule`, `conflict`, `unreachable`, `test_failed`.
        "reason_kind": Optional[str],
        # Goodput of all streams, bit/s.
        "goodput_bps": Optional[float],
        # Share of lost packets, 0 to 1; of TCP, of retransmitted segments.
        "loss_share": Optional[float],
        # Smallest round-trip time, microseconds.
        "min_rtt_us": Optional[float],
        # Median round-trip time, microseconds; of TCP, the mean.
        "typical_rtt_us": Optional[float],
        # Of a probe, the capacity of the narrowest link, bit/s of IP; `null` if the result is inconclusive.
        "capacity_bps": Optional[float],
        # Of a probe, the bandwidth that other traffic leaves, bit/s of IP; `null` if the result is inconclusive.
        "available_bps": Optional[float],
        # Of a trace, the path MTU, bytes of IP; `null` if the search for it is incomplete. No larger packets than
        # 9000 bytes are tried.
        "mtu_bytes": Optional[int],
        # Of a trace, the number of hops to the other end; `null` if the other end did not reply.
        "hops": Optional[int],
        # What limited TCP: a cause of the record, or the kind of a diagnosis.
        "verdict": Optional[str],
        # The evidence in words; the change that would remove the limit follows `; to fix it: `.
        "evidence": Optional[str],
        # The record's directory, at the lead.
        "record": Optional[str],
    },
)

# The tests of a pair in an hour.
HourRow = TypedDict(
    "HourRow",
    {
        # The kind of test.
        "kind": str,
        # The options of the tests, as in `parallel=4`; `null` for tests without options.
        "options": Optional[str],
        # Start of the hour, microseconds since 1970.
        "start_us": int,
        # Number of tests that completed.
        "finished": int,
        # Number of tests that did not complete.
        "failed": int,
        # Number of tests that were not run.
        "not_run": int,
        # Mean goodput, bit/s.
        "goodput_bps": Optional[float],
        # Smallest goodput of a test, bit/s.
        "min_goodput_bps": Optional[float],
        # Largest goodput of a test, bit/s.
        "max_goodput_bps": Optional[float],
        # Mean share of lost packets.
        "loss_share": Optional[float],
        # Smallest round-trip time, microseconds.
        "min_rtt_us": Optional[float],
        # Mean of the tests' typical round-trip times, microseconds.
        "typical_rtt_us": Optional[float],
        # Of probes, the mean capacity of the narrowest link, bit/s of IP.
        "capacity_bps": Optional[float],
        # Smallest capacity that a probe found, bit/s of IP.
        "min_capacity_bps": Optional[float],
        # Largest capacity that a probe found, bit/s of IP.
        "max_capacity_bps": Optional[float],
        # Of probes, the mean available bandwidth, bit/s of IP.
        "available_bps": Optional[float],
        # Smallest available bandwidth that a probe found, bit/s of IP.
        "min_available_bps": Optional[float],
        # Largest available bandwidth that a probe found, bit/s of IP.
        "max_available_bps": Optional[float],
        # Of traces, the smallest path MTU, bytes of IP.
        "min_mtu_bytes": Optional[int],
        # Of traces, the largest path MTU, bytes of IP.
        "max_mtu_bytes": Optional[int],
        # Of traces, the smallest number of hops.
        "min_hops": Optional[int],
        # Of traces, the largest number of hops.
        "max_hops": Optional[int],
        # The most frequent verdict.
        "verdict": Optional[str],
    },
)

# A change of a pair's cause, with its words.
NamedChange = TypedDict(
    "NamedChange",
    {
        # The point that sends.
        "from": str,
        # The point that receives.
        "to": str,
        # The kind of the tests that found it.
        "kind": str,
        # Start of the first test that found it, microseconds since 1970.
        "since_us": int,
        # The cause.
        "cause": str,
        # The first test that found it.
        "test": str,
        # The cause in words.
        "cause_text": str,
    },
)

# A pair over time.
PairDocument = TypedDict(
    "PairDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # The point that sends.
        "from": str,
        # The point that receives.
        "to": str,
        # When the document was made, microseconds since 1970.
        "now_us": int,
        # Its tests, newest first.
        "tests": list[TestRow],
        # Hourly averages of tests that are no longer kept one by one, oldest first.
        "hours": list[HourRow],
        # Changes of the cause, oldest first; the first one may be before the requested time.
        "changes": list[NamedChange],
        # The change that would remove the present cause, as the newest test that found it states it.
        "remedy": Optional[str],
    },
)

# Tests, newest first.
ResultsDocument = TypedDict(
    "ResultsDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # The tests.
        "tests": list[TestRow],
    },
)

# An occupied slot.
SlotReport = TypedDict(
    "SlotReport",
    {
        # The reservation.
        "id": str,
        # `held`, `confirming`, `booked`, `running`.
        "phase": str,
        # The point that leads.
        "from": str,
        # The other end.
        "to": str,
        # The kind of test.
        "kind": str,
        # Its class, which determines the tests that may overlap.
        "class": str,
        # Start of the test, microseconds since 1970.
        "start_us": int,
        # Its length, microseconds.
        "duration_us": int,
        # Time kept free before and after the test, microseconds.
        "padding_us": int,
        # The reservation displaces reservations of lower priority.
        "priority": int,
        # The user who requested it.
        "user": Optional[str],
    },
)

# The calendar of a point.
CalendarDocument = TypedDict(
    "CalendarDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # When the document was made, microseconds since 1970.
        "now_us": int,
        # The point.
        "point": str,
        # The occupied slots, by their starts.
        "slots": list[SlotReport],
        # Share of the time in which no exclusive test may run, 0 to 1.
        "busy_share": float,
    },
)

# A slot that is free.
PlannedSlot = TypedDict(
    "PlannedSlot",
    {
        # Its start, microseconds since 1970.
        "start_us": int,
        # Its length, microseconds.
        "duration_us": int,
    },
)

# A setting that must be larger.
PlannedSetting = TypedDict(
    "PlannedSetting",
    {
        # The point.
        "point": str,
        # The sysctl; its third value, the maximum, is the setting.
        "sysctl": str,
        # The required minimum of this value, bytes.
        "at_least_bytes": int,
        # The rate whose bandwidth-delay product is half of this minimum, bit/s.
        "for_bps": float,
    },
)

# A test that a user requests, or a slot for a program's transfer.
NewReservation = TypedDict(
    "NewReservation",
    {
        # The point that leads and sends.
        "from": str,
        # The other end.
        "to": str,
        # The kind of test: `throughput`, `latency`, `diagnose`, `probe`, `trace`, or `transfer` for the program's own
        # transfer.
        "kind": str,
        # Its duration without `omit_us`, microseconds; if absent, the default of its kind.
        "duration_us": Optional[int],
        # UDP at this rate, bit/s, of all streams together; for a transfer, the program's maximum rate; for a probe,
        # its maximum load.
        "rate_bps": Optional[int],
        # Of a throughput test by TCP, the sender's congestion control; if absent, that of the system.
        "congestion": Optional[str],
        # Of a throughput test, the number of parallel streams, 1 to 128; 1 if absent.
        "parallel": int,
        # Of a throughput test, the time before the duration that no figure includes, microseconds in whole
        # milliseconds. The slot has both.
        "omit_us": int,
        # Time until the earliest start, microseconds.
        "in_us": int,
        # Time from the earliest to the latest start, microseconds.
        "within_us": int,
        # The reservation displaces reservations of lower priority.
        "priority": int,
    },
)

# The plan of a transfer.
PlanDocument = TypedDict(
    "PlanDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # When the plan was made, microseconds since 1970.
        "now_us": int,
        # The point that sends.
        "from": str,
        # The point that receives.
        "to": str,
        # Payload, bytes.
        "bytes": int,
        # When it must be complete, microseconds since 1970.
        "deadline_us": int,
        # Whether the transfer is expected to be complete by the deadline.
        "is_feasible": bool,
        # Why, in words.
        "reason": str,
        # The goodput that nine of ten recent tests reached, bit/s; `null` without tests.
        "rate_bps": Optional[float],
        # The median goodput of these tests, bit/s.
        "median_rate_bps": Optional[float],
        # Number of these tests.
        "tests": int,
        # Start of the oldest of them, microseconds since 1970.
        "tests_since_us": Optional[int],
        # What limits the pair, in words.
        "limit_text": Optional[str],
        # The rate that the deadline needs if the transfer starts in the planned slot, or now if there is none, bit/s.
        "needed_bps": Optional[float],
        # Expected duration of the transfer with its slow start, microseconds.
        "duration_us": Optional[int],
        # The first slot that is free in both calendars.
        "slot": Optional[PlannedSlot],
        # Settings that limit the pair now.
        "settings": list[PlannedSetting],
        # The document that reserves the slot (`/api/v1/reserve`).
        "reservation": Optional[NewReservation],
    },
)

# A reservation, or the occurrences of a recurring test, in words.
Explained = TypedDict(
    "Explained",
    {
        # The reservation.
        "id": str,
        # Its phase: `seeking`, `held`, `confirming`, `booked`, `running`, `finished`, `failed`, `not_run`.
        "phase": str,
        # Its state and the rule or the conflict, in words.
        "text": str,
        # Its result, if the archive has it.
        "result": Optional[TestRow],
    },
)

# Reservations and their results.
ReservationsDocument = TypedDict(
    "ReservationsDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # The reservations; one unless a recurring test was requested, newest first.
        "reservations": list[Explained],
    },
)

# Alerts of pairs are suppressed for a time.
Mute = TypedDict(
    "Mute",
    {
        # The point that sends, or `*`.
        "from": str,
        # The point that receives, or `*`.
        "to": str,
        # Its end, microseconds since 1970.
        "until_us": int,
        # The user who did this.
        "user": str,
        # A note.
        "text": str,
        # When the user did this, microseconds since 1970.
        "at_us": int,
    },
)

# Acknowledged causes and mutes.
AlertsDocument = TypedDict(
    "AlertsDocument",
    {
        # `longfat.mesh/1`.
        "schema": str,
        # The causes that are acknowledged, and have not changed since.
        "acknowledged": list[Acknowledgement],
        # The mutes that have not ended.
        "mutes": list[Mute],
    },
)

# Another point.
MemberStatus = TypedDict(
    "MemberStatus",
    {
        # Its name.
        "name": str,
        # Its address.
        "address": str,
        # Whether a connection is open. Connections without traffic are closed.
        "connected": bool,
        # Why the last connection could not be opened.
        "failure": Optional[str],
    },
)

# A recurring test.
TaskStatus = TypedDict(
    "TaskStatus",
    {
        # Its name.
        "name": str,
        # The other end.
        "to": str,
        # The kind of test.
        "kind": str,
        # Nominal start of the next occurrence that is not reserved yet, microseconds since 1970.
        "next_us": Optional[int],
    },
)

# The state of an agent.
Status = TypedDict(
    "Status",
    {
        # The point.
        "name": str,
        # How others reach it.
        "address": str,
        # The version of the program.
        "version": str,
        # Time since its start, seconds.
        "uptime_s": int,
        # The assumed error of UTC, microseconds.
        "clock_error_us": int,
        # The point with the authority of the mesh.
        "authority": str,
        # The other points.
        "members": list[MemberStatus],
        # Number of reservations that have not ended.
        "open_reservations": int,
        # The tests that run here.
        "running": list[str],
        # The recurring tests.
        "tests": list[TaskStatus],
        # Number of tests in the archive, by state.
        "archive": dict[str, int],
        # Results that have yet to be sent to other points.
        "unsent_results": int,
        # Results that have yet to be sent to the common archive; `null` without one.
        "unforwarded_results": Optional[int],
        # Resident memory of the process, bytes.
        "resident_bytes": Optional[int],
    },
)
