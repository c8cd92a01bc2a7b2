//! The files that `longfat agent init` writes.

/// A commented configuration.
pub(crate) fn config(name: &str, listen: &str, address: &str) -> String {
    format!(
        r#"# A measurement point of longfat; docs/agent.md describes it. `longfat agent check` checks this file.
# Paths are relative to this file.

name = "{name}"                 # as in the point's certificate
listen = "{listen}"    # for other points, by TLS with certificates of the mesh only
address = "{address}"  # how other points reach it

state = "state"            # calendar, archive, records (state/runs), certificates
limits = "limits.toml"     # what this point allows to whom

test_ports = "5202-5299"   # TCP and UDP; a port is open only during a test, for the other end of that test
clock_error = "auto"       # error of UTC: the kernel's estimate (chrony, ntpd), or a time as in "10ms"
padding = "2s"             # kept free before and after each test; the clocks' errors and two round trips are added

# Points that also get the results of tests that this point leads, for the page of the whole mesh.
# results_to = ["a"]

# The point's entry in the directory of the mesh, and on its map. Networks are prefixes, or names.
# [directory]
# place = "Kashima, Japan"
# latitude = 35.954        # degrees; south is negative
# longitude = 140.66       # degrees; west is negative
# networks = ["192.0.2.0/24", "JGN"]

# The page of the mesh, JSON documents (/api/v1/openapi.json) and /metrics. Reading needs no authentication: keep it on loopback,
# or write read = "token"; then programs, and readers of the page, need a token with the scope read.
# [http]
# listen = "127.0.0.1:4863"
# read = "open"

# The metrics of /metrics, pushed by OTLP over HTTP (JSON) to an OpenTelemetry collector, or to Prometheus with
# --web.enable-otlp-receiver (http://HOST:9090/api/v1/otlp/v1/metrics). Instead of `otlp`, `remote_write` names a receiver of Prometheus
# remote write, as in http://HOST:9090/api/v1/write. `token_file` (bearer token), or `user` and `password_file`, if it needs authentication.
# [metrics]
# otlp = "http://127.0.0.1:4318/v1/metrics"
# every = "1min"

# The common archive of the mesh: a database of PostgreSQL 15 or newer, in which this user may create a schema.
# [archive]
# postgres = "host=/run/postgresql dbname=longfat"     # or host=db.example sslmode=verify-full sslrootcert=ca.pem

# [retention]
# records_days = 90        # samples of tests
# tests_days = 90          # figures of tests; then hourly averages
# hours_days = 3660

# Sent when the cause that limits a pair of points changes.
# [alerts]
# webhook = "https://hooks.example/longfat"
# command = ["/usr/local/bin/on-alert"]     # gets the JSON document on standard input
# mail = "noc@example.org"                  # by /usr/sbin/sendmail
# alertmanager = "http://127.0.0.1:9093"    # Prometheus' Alertmanager: an alert for each pair that is limited or has no result

# Servers outside the mesh, as other ends of tests: iperf3 for throughput; twamp, stamp or owamp for latency. A trace needs no service;
# its host is that of the first service, unless `host` names one.
# [[servers]]
# name = "far"
# iperf3 = "iperf.example:5201"
# twamp = "ps.example:862"
# host = "www.example"

# Roles: named sets of scopes. Users without a role, as NAME@POINT, and points without one are limited by limits.toml only. Scopes: read,
# reserve, cancel (any reservation), report (results of transfers), alerts (acknowledge, mute), administer (remove points).
# Tokens get a role by `longfat agent token create NAME --role ROLE`.
# [[roles]]
# name = "operators"
# may = ["read", "reserve", "cancel", "alerts"]
# limits = "mesh"          # class in limits.toml
# users = ["alice@b"]
# points = ["c"]           # all users of these points, unless they have a role

# Tests that this point leads, from here to another point or a server. Kinds: throughput (TCP; UDP at a rate), latency (STAMP), diagnose,
# probe (available bandwidth; the rate is its maximum load), trace (hops and path MTU), stream (real-time, at a rate).
# [[tests]]
# name = "hourly-to-b"
# to = "b"                 # or ["b", "c"], or "*" for each other point of the mesh, also those that join later
# kind = "throughput"
# duration = "10s"
# parallel = 4             # streams of a throughput test; default: 1
# congestion = "cubic"     # of the sender (TCP); default: that of the system
# omit = "2s"              # before the duration, not included in the figures
# every = "1h"             # counted from 1970-01-01: at the full hour
# offset = "0s"            # time from there to the nominal start
# slip = "10min"            # how much later it may start
# random_start = true      # the earliest start is a random time within the slip
# priority = 0             # displaces reservations of lower priority that have not started
"#
    )
}

/// Commented limits: members of the mesh may test for a minute, without UDP.
pub(crate) fn limits() -> &'static str {
    r#"# What this point allows to whom; `longfat agent limits explain USER TEST --file limits.toml` shows which rule decides.
# Users are NAME@POINT: a login name at the requesting point, or "recurring" for recurring tests.

[classes.mesh]
max_duration = "60s"
max_horizon = "24h"        # time until the start
max_pending = 100          # reservations that have not ended
max_time_error = "40s"     # sum of both clocks' errors; a clock that nothing synchronizes has 16 s
max_priority = 0           # a test displaces those of lower priority; users of this point are not limited
allow_udp = false          # UDP tests at a rate

[assign]
default = "mesh"           # all authenticated points
# [assign.users]
# "alice@b" = "mesh"

# [[links]]
# name = "uplink"
# nets = ["0.0.0.0/0", "::/0"]
# rate = "1gbit"           # what a TCP test is assumed to send
# daily_bytes = "100GB"    # per day of UTC
"#
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limits_are_valid() {
        super::limits().parse::<limits::Limits>().unwrap();
    }
}
