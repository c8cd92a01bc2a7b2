//! Each mistake that a scenario file can have, and the exact line of its message.

use scenario::ScenarioFile;

/// A valid file; each case changes one thing in it.
const GOOD: &str = r#"duration = "20s"
sample = "10ms"
[hosts."*"]
mtu = 1500
[hosts.h1]
address = "10.0.0.1/8"
[hosts.h2]
address = "10.0.0.2/8"
[switches]
names = ["s1", "s2"]
[[links]]
ends = ["h1", "s1"]
[[links]]
ends = ["s1", "s2"]
forward = { rate = "10gbit", delay = "20ms", queue = "25MB" }
[[links]]
ends = ["s2", "h2"]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
start = "1s"
[[flows]]
name = "echo"
kind = "ping"
from = "h1"
to = "h2"
[[variants]]
name = "reno"
flows.bulk.cc = "reno"
[[published]]
id = "X-1"
variant = "reno"
metric = "flows.bulk.goodput"
value = "3gbit"
tolerance = "15%"
"#;

/// Each case: the text to replace in `GOOD` (once), its replacement, and the expected message.
fn check(cases: &[(&str, &str, &str)]) {
    for (find, replace, expected) in cases {
        assert!(GOOD.contains(find), "{find} is not in the file");
        assert_eq!(shown(&GOOD.replacen(find, replace, 1)), *expected, "{find} replaced by {replace}");
    }
}

fn shown(text: &str) -> String {
    match ScenarioFile::parse("f.toml", text) {
        Ok(_) => "no mistakes".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_base_is_valid() {
    assert_eq!(shown(GOOD), "no mistakes");
}

/// The last valid values at each limit.
#[test]
fn limits() {
    for (find, replace) in [
        ("25MB", "1514B"),
        ("25MB", "1p"),
        ("10gbit", "1Tbit"),
        ("10gbit", "1bit"),
        ("queue = \"25MB\"", "loss = 1.0"),
        ("queue = \"25MB\"", "loss = 0"),
        ("queue = \"25MB\"", "burst = \"1514B\""),
        ("queue = \"25MB\"", "overhead = 0"),
        ("queue = \"25MB\"", "overhead = 1000"),
        ("duration = \"20s\"", "duration = \"720h\""),
        ("sample = \"10ms\"", "sample = \"1us\""),
        ("sample = \"10ms\"", "sample = \"10s\""),
        ("sample = \"10ms\"", "repeat = 1000"),
        ("sample = \"10ms\"", "seed = 0"),
        ("mtu = 1500", "mtu = 68"),
        ("mtu = 1500", "mtu = 65521"),
        ("start = \"1s\"", "start = \"19.999999999s\""),
        ("start = \"1s\"", "start = \"1s\"\nstop = \"1.000000001s\""),
        ("start = \"1s\"", "mss = 88"),
        ("start = \"1s\"", "mss = 32767"),
        ("start = \"1s\"", "send_buffer = \"1073741823B\""),
        ("kind = \"ping\"", "kind = \"ping\"\ncount = 1\ninterval = \"1ms\"\npayload = \"65507B\""),
        ("kind = \"ping\"", "kind = \"ping\"\npayload = \"0B\""),
    ] {
        assert!(GOOD.contains(find), "{find} is not in the file");
        assert_eq!(shown(&GOOD.replacen(find, replace, 1)), "no mistakes", "{replace}");
    }
}

#[test]
fn keys() {
    check(&[
        (
            "delay =",
            "dealy =",
            r#"f.toml:15:30: unknown key "dealy" in a link's direction; did you mean "delay"?"#,
        ),
        (
            r#"sample = "10ms""#,
            r#"sysctl = "windows""#,
            r#"f.toml:2:10: no sysctl defaults are known for "windows"; write "machine" for the values of the machine that runs it, or a kernel whose defaults apply: "2.4", or 5.0 and later, such as "6.1""#,
        ),
        ("sample =", "sampel =", r#"f.toml:2:1: unknown key "sampel" in a scenario; did you mean "sample"?"#),
        (
            r#"cc = "cubic""#,
            r#"colour = "red""#,
            r#"f.toml:22:1: unknown key "colour" in a flow; expected one of: name, from, to, kind, start, stop, cc, size, mss, send_buffer, receive_buffer, pacing, read_rate, write_rate, write_size, reader_stops, reader_resumes, streams"#,
        ),
        ("mtu = 1500", "mut = 1500", r#"f.toml:4:1: unknown key "mut" in a host; did you mean "mtu"?"#),
        (
            r#"to = "h2"
[[variants"#,
            r#"to = "h2"
size = "1MB"
[[variants"#,
            r#"f.toml:29:1: unknown key "size" in a ping flow; expected one of: name, from, to, kind, start, stop, interval, count, payload"#,
        ),
        (
            "names = [",
            "nams = [",
            r#"f.toml:9:1: switches needs "names"; for example names = ["s1", "s2"]
f.toml:10:1: unknown key "nams" in switches; did you mean "names"?"#,
        ),
        (
            "[[published]]",
            "[[publisht]]",
            r#"f.toml:32:3: unknown key "publisht" in a scenario; did you mean "published"?"#,
        ),
        (
            r#"delay = "20ms","#,
            r#"delay = "20ms", slot = "1ms","#,
            r#"f.toml:15:46: unknown key "slot" in a link's direction; expected one of: rate, delay, queue, loss, burst, overhead, mtu, down, trace, trace_format, trace_period, jitter, distribution, jitter_reorders, duplicate, corrupt, reorder, reorder_gap, qdisc, ecn"#,
        ),
        (
            r#"start = "1s""#,
            "ecn = true",
            r#"f.toml:23:1: unknown key "ecn" in a flow; expected one of: name, from, to, kind, start, stop, cc, size, mss, send_buffer, receive_buffer, pacing, read_rate, write_rate, write_size, reader_stops, reader_resumes, streams"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "sabul""#,
            r#"f.toml:26:8: unknown kind of flow "sabul"; expected one of: tcp, ping, udp, xcp, udt, tsunami, stream, quic"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "pong""#,
            r#"f.toml:26:8: unknown kind of flow "pong"; did you mean "ping"?"#,
        ),
        (
            "tolerance =",
            "tolerance_percent = ",
            r#"f.toml:32:1: a published figure needs "tolerance"; for example tolerance = "10%"
f.toml:37:1: unknown key "tolerance_percent" in a published figure; expected one of: id, kind, claim, variant, against, beside, variants, knee_over, metric, between, over, window, value, tolerance, holds_for, contradiction, known_miss, experiment, does_not_apply, why"#,
        ),
    ]);
}

/// A link has few keys of its own, so a key of its directions is a likely mistake.
#[test]
fn keys_of_links() {
    let ends = r#"ends = ["h1", "s1"]"#;
    let cases = [
        ("nmae = \"a\"", r#"unknown key "nmae" in a link; did you mean "name"?"#),
        ("mtu = 1400", r#"unknown key "mtu" in a link; did you mean both = { mtu = .. }?"#),
        ("dealy = \"1ms\"", r#"unknown key "dealy" in a link; did you mean both = { delay = .. }?"#),
        (
            "colour = 1",
            r#"unknown key "colour" in a link; expected one of: name, ends, forward, backward, both, changes"#,
        ),
    ];
    for (line, message) in cases {
        let text = GOOD.replacen(ends, &format!("{ends}\n{line}"), 1);
        assert_eq!(shown(&text), format!("f.toml:13:1: {message}"));
    }
}

#[test]
fn types() {
    check(&[
        (r#"duration = "20s""#, "duration = true", r#"f.toml:1:12: "duration" is a string, not a boolean"#),
        (
            r#"duration = "20s""#,
            "duration = 2026-01-01",
            r#"f.toml:1:12: "duration" is a string, not a date"#,
        ),
        (
            r#"[hosts.h1]
address = "10.0.0.1/8""#,
            r#"[hosts]
h1 = 5"#,
            "f.toml:6:6: a host is a table, not an integer",
        ),
        (
            r#"[[links]]
ends = ["s1", "s2"]
forward"#,
            r#"[[links]]
ends = "s1"
forward"#,
            r#"f.toml:14:8: "ends" must name the two ends of the link; for example ends = ["h1", "s1"]"#,
        ),
        (
            r#"names = ["s1", "s2"]"#,
            r#"names = ["s1", 2]"#,
            "f.toml:10:16: a switch's name is a string, not an integer",
        ),
        (
            "mtu = 1500",
            r#"mtu = "1500""#,
            r#"f.toml:4:7: "mtu" is an integer, not a string; write a whole number from 68 to 65521 bytes"#,
        ),
        (
            "mtu = 1500",
            "mtu = 67",
            r#"f.toml:4:7: "mtu" cannot be 67; write a whole number from 68 to 65521 bytes"#,
        ),
        (
            r#"cc = "cubic""#,
            "cc = 7",
            r#"f.toml:22:6: "cc" is a string or a table, not an integer; write for example cc = "cubic", cc = { name = "griddt", a = 7 } or cc = { file = "my.bpf.c", set = { beta = 819 } }"#,
        ),
        (
            r#"{ rate = "10gbit", delay = "20ms", queue = "25MB" }"#,
            r#""10gbit""#,
            "f.toml:15:11: a link's direction is a table, not a string",
        ),
        (
            r#"sample = "10ms""#,
            "seed = 1.5",
            r#"f.toml:2:8: "seed" is an integer, not a number; write a whole number from 0 to 18446744073709551615"#,
        ),
        (
            r#"sample = "10ms""#,
            "repeat = 0",
            r#"f.toml:2:10: "repeat" cannot be 0; write a whole number from 1 to 1000"#,
        ),
        (
            r#"sample = "10ms""#,
            "seed = 99999999999999999999999999999999999999999999",
            r#"f.toml:2:8: "seed" is an integer, not a number this large; write a whole number from 0 to 18446744073709551615"#,
        ),
    ]);
}

#[test]
fn quantities() {
    check(&[
        (r#""10gbit""#, r#""10g""#, "f.toml:15:20: rate: `10g` is ambiguous; write 10 Gbit/s or 10 GB/s"),
        (r#""10gbit""#, "10", "f.toml:15:20: rate: `10` has no unit; write 10bit, 10Mbit or 10Gbit"),
        (
            r#""10gbit""#,
            r#""-10gbit""#,
            "f.toml:15:20: rate: `-10gbit` is negative; a rate is zero or more, for example 10gbit or 10Gb/s",
        ),
        (
            r#""10gbit""#,
            r#""0gbit""#,
            r#"f.toml:15:20: "rate" cannot be zero; write for example rate = "10gbit""#,
        ),
        (r#""10gbit""#, r#""2Tbit""#, r#"f.toml:15:20: "rate" exceeds 1 Tb/s; write a rate up to 1Tbit"#),
        (
            r#""25MB""#,
            r#""0B""#,
            r#"f.toml:15:54: "queue" cannot be zero; write for example "25MB" or "100p""#,
        ),
        (
            r#""25MB""#,
            r#""0p""#,
            r#"f.toml:15:54: "queue" cannot be zero; write for example "25MB" or "100p""#,
        ),
        (
            r#""25MB""#,
            r#""25M""#,
            "f.toml:15:54: queue: `25M` is ambiguous; write 25 MB = 25,000,000 bytes or 25 MiB = 26,214,400 bytes",
        ),
        (
            r#""25MB""#,
            r#""1513B""#,
            "f.toml:15:54: a queue of 1513 B is too small for one packet; the largest is 1500 + 14 = 1514 B",
        ),
        (
            r#""25MB""#,
            "100",
            "f.toml:15:54: queue: `100` has no unit; write 100B for bytes, or 100kB, 100KiB, 100MB, 100MiB",
        ),
        (
            r#"queue = "25MB""#,
            r#"burst = "1kB""#,
            "f.toml:15:54: a burst of 1000 B is too small for one packet; the largest is 1500 + 14 = 1514 B",
        ),
        (
            r#"queue = "25MB""#,
            r#"loss = "101%""#,
            "f.toml:15:53: loss: `101%` is outside 0 to 1; write a share as 0.01 or 1%",
        ),
        (
            r#"queue = "25MB""#,
            "loss = -0.1",
            "f.toml:15:53: loss: `-0.1` is outside 0 to 1; write a share as 0.01 or 1%",
        ),
        (r#"queue = "25MB""#, "loss = 1", "f.toml:15:53: loss: `1` is ambiguous; write 1% or 100%"),
        (
            r#"queue = "25MB""#,
            "overhead = 2000",
            r#"f.toml:15:57: "overhead" cannot be 2000; write a whole number from 0 to 1000 bytes"#,
        ),
        (
            r#"queue = "25MB""#,
            "overhead = -1",
            r#"f.toml:15:57: "overhead" cannot be -1; write a whole number from 0 to 1000 bytes"#,
        ),
        (
            r#"rate = "10gbit","#,
            "",
            r#"f.toml:15:38: "queue" has no effect without "rate"; give this direction a rate"#,
        ),
        (
            r#"duration = "20s"
"#,
            "",
            r#"f.toml:1:1: a scenario needs "duration"; for example duration = "20s""#,
        ),
        (
            r#"duration = "20s""#,
            r#"duration = "0s""#,
            r#"f.toml:1:12: "duration" cannot be zero; write for example duration = "20s""#,
        ),
        (
            r#"duration = "20s""#,
            r#"duration = "20""#,
            "f.toml:1:12: duration: `20` has no unit; write 20ms or 20s",
        ),
        (
            r#"duration = "20s""#,
            r#"duration = "99999h""#,
            r#"f.toml:1:12: "duration" exceeds 30 days; write a shorter time"#,
        ),
        (
            r#"sample = "10ms""#,
            r#"sample = "0.9us""#,
            r#"f.toml:2:10: "sample" cannot be 900 ns; write a time from 1us to 10s"#,
        ),
        (
            r#"sample = "10ms""#,
            r#"sample = "11s""#,
            r#"f.toml:2:10: "sample" cannot be 11 s; write a time from 1us to 10s"#,
        ),
        (r#"start = "1s""#, r#"start = "20s""#, "f.toml:23:9: the flow never starts; the run lasts 20 s"),
        (
            r#"start = "1s""#,
            r#"stop = "0s""#,
            "f.toml:23:8: the flow stops before it starts; write a time after 0 s",
        ),
        (
            r#"start = "1s""#,
            r#"start = "2s"
stop = "2s""#,
            "f.toml:24:8: the flow stops before it starts; write a time after 2 s",
        ),
        (
            r#"start = "1s""#,
            r#"size = "0B""#,
            r#"f.toml:23:8: "size" cannot be zero; write for example size = "25MB""#,
        ),
        (
            r#"start = "1s""#,
            "mss = 87",
            r#"f.toml:23:7: "mss" cannot be 87; write a whole number from 88 to 32767 bytes"#,
        ),
        (
            r#"start = "1s""#,
            "mss = 32768",
            r#"f.toml:23:7: "mss" cannot be 32768; write a whole number from 88 to 32767 bytes"#,
        ),
        (
            r#"start = "1s""#,
            r#"send_buffer = "1GiB""#,
            "f.toml:23:15: a socket buffer cannot be 1 GiB; write less than 1GiB",
        ),
        (
            r#"start = "1s""#,
            r#"read_rate = "0Mbit""#,
            r#"f.toml:23:13: "read_rate" cannot be zero; write for example read_rate = "10gbit""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "ping"
count = 0"#,
            r#"f.toml:27:9: "count" cannot be 0; write a whole number from 1 to 4294967295"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "ping"
interval = "0ms""#,
            r#"f.toml:27:12: "interval" cannot be 0 s; write at least 1ms"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "ping"
payload = "66kB""#,
            "f.toml:27:11: an echo request cannot carry 66 kB; write at most 65507B",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udp""#,
            r#"f.toml:24:1: a udp flow needs "rate"; for example rate = "100mbit""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udp"
rate = "1gbit"
packet = "66kB""#,
            "f.toml:28:10: a datagram cannot carry 66 kB; write at most 65507B",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udp"
rate = "100gbit"
packet = "8B""#,
            "f.toml:28:10: 100 Gb/s is more than one datagram of 8 B per nanosecond; write larger datagrams or a lower rate",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udp"
rate = "1gbit"
on = "1s""#,
            r#"f.toml:28:6: "on" needs "off"; write for example off = "1s""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udp"
rate = "1gbit"
random = true"#,
            r#"f.toml:28:10: "random" needs "on"; write for example on = "1s""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udp"
rate = "1gbit"
on = "1us"
off = "1s""#,
            "f.toml:28:6: \"on\" is too short; write at least 10us",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "xcp"
cc = "reno""#,
            r#"f.toml:27:1: unknown key "cc" in an xcp flow; expected one of: name, from, to, kind, start, stop, size"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udt"
cc = "reno""#,
            r#"f.toml:27:1: unknown key "cc" in a udt flow; expected one of: name, from, to, kind, start, stop, size, control, rate, tolerate_loss, receive_buffer"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udt"
rate = "900mbit"
tolerate_loss = "1%""#,
            r#"f.toml:28:17: a flow with a "rate" does not react to losses; remove one of the two"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udt"
control = "sabul"
rate = "900mbit""#,
            r#"f.toml:28:8: "rate" belongs to UDT's rate control, not to SABUL's; remove it, or "control""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "udt"
receive_buffer = "7GB""#,
            "f.toml:27:18: UDT cannot have a buffer of 7 GB; write at most 6GB: sequence numbers have 31 bits",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "quic"
receive_buffer = "5GB""#,
            "f.toml:27:18: QUIC's flow-control window cannot be 5 GB; write 4kB to 4GB",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "quic"
pacing = "1gbit""#,
            r#"f.toml:27:1: unknown key "pacing" in a quic flow; expected one of: name, from, to, kind, start, stop, size, cc, receive_buffer"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "tsunami"
rate = "5gbit""#,
            "f.toml:27:8: Tsunami cannot send at 5 Gb/s; write at most 4.29gbit",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "tsunami"
block = "66kB""#,
            "f.toml:27:9: a datagram cannot carry a block of 66 kB; write at most 65501B",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "tsunami"
size = "100TB"
block = "1kB""#,
            "f.toml:27:8: a size of 100 TB has more blocks of 1 kB than Tsunami can number; write a larger block or a smaller size",
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "tsunami"
error_threshold = 1.0"#,
            r#"f.toml:27:19: "error_threshold" must be below 100 %; write for example "7.5%""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "tsunami"
rate = "10bit""#,
            r#"f.toml:27:8: "rate" cannot be 10 b/s; write at least 1kbit"#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "stream"
repair = true"#,
            r#"f.toml:24:1: a stream flow needs "rate"; for example rate = "512mbit""#,
        ),
        (
            r#"kind = "ping""#,
            r#"kind = "stream"
rate = "512mbit"
deadline = "2min""#,
            r#"f.toml:28:12: "deadline" cannot be 120 s; write at most 60s"#,
        ),
        (
            r#"cc = "cubic""#,
            r#"cc = "cubic cubic""#,
            r#"f.toml:22:6: "cubic cubic" cannot name a congestion control; write up to 15 letters, digits, _ and -, for example "cubic""#,
        ),
    ]);
}

#[test]
fn names() {
    check(&[
        (
            "[hosts.h1]",
            r#"[hosts."h 1"]"#,
            r#"f.toml:5:8: "h 1" cannot name a host; write letters, digits, _ and -, and no - at the start"#,
        ),
        (
            "[hosts.h1]",
            "[hosts.eleven_char]",
            r#"f.toml:5:8: the host name "eleven_char" is too long; write at most 10 characters (its device is called eleven_char-eth0)"#,
        ),
        (
            r#"address = "10.0.0.1/8""#,
            r#"address = "10.0.0.1/8"
sysctl = { "kernel.pid_max" = 1 }"#,
            r#"f.toml:7:12: "kernel.pid_max" is not a network setting of a host; write a name that begins with "net.", for example "net.ipv4.tcp_rmem""#,
        ),
        (
            r#"address = "10.0.0.1/8""#,
            r#"address = "10.0.0.1/8"
sysctl = { "net.IPV4" = 1 }"#,
            r#"f.toml:7:12: "net.IPV4" cannot name a sysctl; write lower-case letters, digits, _, - and single dots"#,
        ),
        (
            r#"address = "10.0.0.1/8""#,
            r#"address = "10.0.0.1/8"
sysctl = { "net.x" = true }"#,
            "f.toml:7:22: a sysctl's value is a string or an integer, not a boolean",
        ),
        (
            r#"address = "10.0.0.1/8""#,
            r#"address = "10.0.0.1/8"
sysctl = { "net.x" = "1\u000a2" }"#,
            "f.toml:7:22: this cannot be the value of net.x; write one line of at most 4096 bytes",
        ),
        (
            r#"["s1", "s2"]"#,
            r#"["s1", "s2", "s1"]"#,
            r#"f.toml:10:22: two switches are called "s1"; give it another name"#,
        ),
        (r#"["s1", "s2"]"#, r#"["s1", "s2", "h2"]"#, r#"f.toml:10:22: "h2" is already a host"#),
        (
            r#"name = "echo""#,
            r#"name = "bulk""#,
            r#"f.toml:25:8: two flows are called "bulk"; give it another name"#,
        ),
        (
            r#"name = "echo""#,
            r#"name = "e.cho""#,
            r#"f.toml:25:8: "e.cho" cannot name a flow; write letters, digits, _ and -, and no - at the start"#,
        ),
        (
            r#"ends = ["s2", "h2"]"#,
            r#"ends = ["s2", "h2"]
name = "s1-s2""#,
            r#"f.toml:18:8: two links are called "s1-s2"; give it another name"#,
        ),
        (
            r#"name = "echo"
"#,
            "",
            r#"f.toml:24:1: a ping flow needs "name"; for example name = "bulk""#,
        ),
    ]);
}

#[test]
fn addresses() {
    check(&[
        (
            r#""10.0.0.1/8""#,
            r#""10.0.0.1""#,
            r#"f.toml:6:11: address: "10.0.0.1" has no prefix length; write for example "10.0.0.1/8""#,
        ),
        (
            r#""10.0.0.1/8""#,
            r#""ten/8""#,
            r#"f.toml:6:11: address: "ten" is not an IP address; write for example "10.0.0.1/8""#,
        ),
        (
            r#""10.0.0.1/8""#,
            r#""10.0.0.0/8""#,
            r#"f.toml:6:11: address: 10.0.0.0/8 is the network itself, not a host's address; write for example "10.0.0.1/8""#,
        ),
        (
            r#""10.0.0.1/8""#,
            r#""10.0.0.2/8""#,
            "f.toml:8:11: h1 already has the address 10.0.0.2; give each host a different address",
        ),
        (
            r#""10.0.0.1/8""#,
            r#""11.0.0.1/8""#,
            r#"f.toml:21:6: h1 (11.0.0.1/8) and h2 (10.0.0.2/8) are not in the same subnet; give both the same network, or join them by a router
f.toml:28:6: h1 (11.0.0.1/8) and h2 (10.0.0.2/8) are not in the same subnet; give both the same network, or join them by a router"#,
        ),
        (
            r#""10.0.0.1/8""#,
            r#""fd00::1/8""#,
            r#"f.toml:21:6: h1 (fd00::1/8) and h2 (10.0.0.2/8) have no common IP version; give both an address of one IP version
f.toml:28:6: h1 (fd00::1/8) and h2 (10.0.0.2/8) have no common IP version; give both an address of one IP version"#,
        ),
        (
            r#"address = "10.0.0.1/8"
"#,
            "",
            r#"f.toml:5:1: a host needs "address"; for example address = "10.0.0.1/8""#,
        ),
        (
            r#"address = "10.0.0.1/8""#,
            r#"address = "fd00::1/8"
mtu = 1279"#,
            r#"f.toml:7:7: IPv6 does not work with an MTU of 1279; write at least 1280
f.toml:22:6: h1 (fd00::1/8) and h2 (10.0.0.2/8) have no common IP version; give both an address of one IP version
f.toml:29:6: h1 (fd00::1/8) and h2 (10.0.0.2/8) have no common IP version; give both an address of one IP version"#,
        ),
    ]);
}

#[test]
fn ends_of_flows() {
    check(&[
        (
            r#"from = "h1"
to = "h2"
cc"#,
            r#"from = "h11"
to = "h2"
cc"#,
            r#"f.toml:20:8: unknown host "h11"; did you mean "h1"?"#,
        ),
        (
            r#"from = "h1"
to = "h2"
cc"#,
            r#"from = "h1"
to = "s2"
cc"#,
            r#"f.toml:21:6: "s2" is a switch, not a host; hosts are h1, h2"#,
        ),
        (
            r#"from = "h1"
to = "h2"
cc"#,
            r#"from = "h2"
to = "h2"
cc"#,
            "f.toml:21:6: the flow goes from h2 to itself; name another host",
        ),
    ]);
}

#[test]
fn topology() {
    check(&[
        (
            r#"ends = ["s1", "s2"]"#,
            r#"ends = ["s1", "s3"]"#,
            r#"f.toml:14:15: unknown host, switch or router "s3"; did you mean "s1"?"#,
        ),
        (
            r#"ends = ["s1", "s2"]"#,
            r#"ends = ["s1", "s1"]"#,
            "f.toml:14:15: the link joins s1 with itself; name two different ends",
        ),
        (
            r#"ends = ["s2", "h2"]"#,
            r#"ends = ["s2", "s1"]
name = "back""#,
            r#"f.toml:7:1: the host h2 has no link; for example ends = ["h2", "s1"] under [[links]]"#,
        ),
        (
            r#"[[links]]
ends = ["s2", "h2"]
"#,
            "",
            r#"f.toml:7:1: the host h2 has no link; for example ends = ["h2", "s1"] under [[links]]"#,
        ),
        (
            r#"[[links]]
ends = ["s1", "s2"]
forward = { rate = "10gbit", delay = "20ms", queue = "25MB" }
"#,
            "",
            r#"f.toml:18:6: no links connect h1 to h2; add the missing link
f.toml:25:6: no links connect h1 to h2; add the missing link"#,
        ),
    ]);
}

#[test]
fn variants() {
    check(&[
        (
            r#"flows.bulk.cc = "reno""#,
            r#"links."s1-s3".forward.delay = "1ms""#,
            r#"f.toml:31:7: variant "reno": unknown link "s1-s3"; did you mean "s1-s2"?"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"links."s1-s2".forward.dealy = "1ms""#,
            r#"f.toml:31:23: variant "reno": unknown key "dealy" in a link's direction; did you mean "delay"?"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"links."s1-s2".ends = ["s2", "s1"]"#,
            r#"f.toml:31:15: variant "reno": the ends of a link cannot be changed here; write a separate scenario"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"flows.bluk.cc = "reno""#,
            r#"f.toml:31:7: variant "reno": unknown flow "bluk"; did you mean "bulk"?"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"flows = [{ cc = "reno" }]"#,
            r#"f.toml:31:9: variant "reno": here flows are addressed by name; write for example flows.bulk.cc = "reno""#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            "hosts.h3.mtu = 9000",
            r#"f.toml:31:7: variant "reno": unknown host "h3"; did you mean "h1"?"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            "hosts = 3",
            r#"f.toml:31:9: variant "reno": "hosts" is a table of hosts, not an integer"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"durration = "2s""#,
            r#"f.toml:31:1: variant "reno": unknown key "durration" in a variant or --set; did you mean "duration"?"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            "switches.names = []",
            r#"f.toml:31:1: variant "reno": unknown key "switches" in a variant or --set; expected one of: title, duration, sample, seed, repeat, sysctl, hosts, routers, links, flows, capture"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"duration = "1s""#,
            r#"f.toml:23:9: variant "reno": the flow never starts; the run lasts 1 s"#,
        ),
        (
            r#"flows.bulk.cc = "reno""#,
            r#"hosts."*".mtu = 40000
links.s1-s2.both = { rate = "1gbit", queue = "30kB" }"#,
            r#"f.toml:32:46: variant "reno": a queue of 30000 B is too small for one packet; the largest is 40000 + 14 = 40014 B"#,
        ),
        (
            r#"name = "reno"
"#,
            "",
            r#"f.toml:29:1: a variant needs "name"; for example name = "tuned""#,
        ),
        (
            r#"name = "reno""#,
            r#"name = "a/b""#,
            r#"f.toml:30:8: "a/b" cannot name a variant; write letters, digits, _ and -, and no - at the start"#,
        ),
        (
            "[[published]]",
            r#"[[variants]]
name = "reno"
seed = 2
[[published]]"#,
            r#"f.toml:33:8: two variants are called "reno""#,
        ),
        (
            r#"[[variants]]
name = "reno"
flows.bulk.cc = "reno""#,
            "[variants.reno]",
            r#"f.toml:29:2: "variants" is a list of tables, not a table; write [[variants]] above each variant"#,
        ),
    ]);
}

#[test]
fn published_figures() {
    check(&[
        (
            r#"variant = "reno""#,
            r#"variant = "rneo""#,
            r#"f.toml:34:11: unknown variant "rneo"; did you mean "reno"?"#,
        ),
        (
            r#"variant = "reno"
"#,
            "",
            r#"f.toml:32:1: a published figure needs "variant"; for example variant = "reno""#,
        ),
        (
            "flows.bulk.goodput",
            "flows.blk.goodput",
            r#"f.toml:35:10: unknown flow "blk"; did you mean "bulk"?"#,
        ),
        (
            "flows.bulk.goodput",
            "flows.bulk.goodputt",
            r#"f.toml:35:10: unknown metric "goodputt"; did you mean "goodput"?"#,
        ),
        (
            "flows.bulk.goodput",
            "flows.bulk.first_rtt",
            "f.toml:35:10: a tcp flow has no first_rtt; it has goodput, steady_goodput, steady_from, min_rtt, mean_rtt, median_rtt, max_rtt, mean_cwnd, max_cwnd, receive_window, retransmitted_share, overhead, recovery",
        ),
        (
            "flows.bulk.goodput",
            "flows.echo.goodput",
            "f.toml:35:10: a ping flow has no goodput; it has min_rtt, mean_rtt, median_rtt, max_rtt, first_rtt, mdev_rtt",
        ),
        (
            "flows.bulk.goodput",
            "goodput",
            r#"f.toml:35:10: unknown metric "goodput"; write flows.NAME.METRIC, as in flows.bulk.goodput, or links.NAME.METRIC, run.METRIC, model.FLOW.KEY"#,
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "links.s1-s2.utilization"
between = ["1s", "2s"]"#,
            "f.toml:36:11: only the goodput of a flow has parts; write metric = \"flows.NAME.goodput\"\n\
             f.toml:37:9: value: `3gbit` does not begin with a number; write for example 98% or 2.39",
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "flows.bulk.goodput"
between = ["2s", "1s"]"#,
            r#"f.toml:36:11: "between" is a start and a later end; write for example between = ["5s", "5.08s"]"#,
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "flows.bulk.goodput"
kind = "measured""#,
            r#"f.toml:36:8: "kind" cannot be "measured"; expected one of: published, derived, measured_by_us"#,
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "flows.bulk.goodput"
against = "rneo""#,
            r#"f.toml:36:11: unknown variant "rneo"; did you mean "reno"?"#,
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "flows.bulk.goodput"
beside = "rneo""#,
            r#"f.toml:36:10: unknown variant "rneo"; did you mean "reno"?"#,
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "flows.bulk.goodput"
beside = "reno""#,
            r#"f.toml:36:10: "beside" needs another variant than that of the figure; "variant" has today's kernel; name the variant with the kernel of the source"#,
        ),
        (
            r#"metric = "flows.bulk.goodput""#,
            r#"metric = "flows.bulk.goodput"
known_miss = { simulator = "why" }"#,
            r#"f.toml:36:16: unknown key "simulator" in a text per engine; expected one of: model, sim, lab, kernel, hosts"#,
        ),
        (
            "flows.bulk.goodput",
            "links.h1-h3.utilization",
            r#"f.toml:35:10: unknown link "h1-h3"; expected one of: h1-s1, s1-s2, s2-h2"#,
        ),
        (
            "flows.bulk.goodput",
            "model.bulk.bdp",
            r#"f.toml:35:10: unknown metric "bdp"; the nearest of 20 are bdp_segs, bdp_bytes, pftk_bps"#,
        ),
        (
            "flows.bulk.goodput",
            "run.jain",
            "f.toml:36:9: value: `3gbit` does not begin with a number; write for example 98% or 2.39",
        ),
        (
            r#"id = "X-1""#,
            r#"id = """#,
            r#"f.toml:33:6: the id is empty; write the id of the published result, as in "L8-default""#,
        ),
        (
            r#"id = "X-1"
"#,
            "",
            r#"f.toml:32:1: a published figure needs "id"; for example id = "L8-default""#,
        ),
        (
            r#""3gbit""#,
            r#""3ms""#,
            "f.toml:36:9: value: `ms` is not a unit of a rate; write bit, kbit, Mbit, Gbit, Tbit, b/s to Tb/s, or bytes as B/s to TB/s",
        ),
        (
            r#""15%""#,
            r#""150%""#,
            "f.toml:37:13: tolerance: `150%` is outside 0 to 1; write a share as 0.01 or 1%",
        ),
        (
            r#"tolerance = "15%""#,
            r#"tolerance = "15%"
holds_for = { kernel = "six" }"#,
            r#"f.toml:38:24: "six" is not a range of kernels; write for example "<6.6" or ">=6.6""#,
        ),
        (
            r#"tolerance = "15%""#,
            r#"tolerance = "15%"
holds_for = { kernle = "<6.6" }"#,
            r#"f.toml:38:15: unknown key "kernle" in holds_for; did you mean "kernel"?"#,
        ),
        (
            r#"tolerance = "15%""#,
            r#"tolerance = "15%"
[[published]]
id = "X-1"
variant = "reno"
metric = "flows.bulk.goodput"
value = "3gbit"
tolerance = "1%""#,
            r#"f.toml:38:1: "X-1" appears twice for the same variant and metric"#,
        ),
    ]);
}

#[test]
fn not_toml() {
    check(&[
        (
            r#"duration = "20s""#,
            "duration = 20s",
            "f.toml:1:12: this is not TOML: string values must be quoted, expected literal string",
        ),
        (
            r#"duration = "20s""#,
            r#"duration = "20s"#,
            r#"f.toml:1:16: this is not TOML: invalid basic string, expected `"`"#,
        ),
        ("sample =", "duration =", "f.toml:2:1: this is not TOML: duplicate key"),
    ]);
}

#[test]
fn an_empty_file() {
    assert_eq!(
        shown("duration = \"1s\""),
        "f.toml:1:1: the scenario has no hosts; write for example [hosts.h1]"
    );
    assert!(shown("").contains("no hosts"));
    assert!(shown("flows = []").contains("needs \"duration\""));
    assert!(shown("\u{0}\u{7f}ELF").contains("this is not TOML"));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = GOOD.replace("delay =", "dealy =").replace("\"10gbit\"", "\"10g\"");
    let error = ScenarioFile::parse("f.toml", &text).unwrap_err();
    let places: Vec<&str> = error.mistakes().iter().map(|m| m.location()).collect();
    assert_eq!(places, ["f.toml:15:20", "f.toml:15:27"]);
}

fn resolve(variant: Option<&str>, sets: &[(&str, &str)]) -> Result<scenario::Scenario, String> {
    let sets: Vec<(String, String)> = sets.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    ScenarioFile::parse("f.toml", GOOD).unwrap().resolve(variant, &sets).map_err(|e| e.to_string())
}

#[test]
fn settings_from_the_command_line() {
    let scenario = resolve(
        Some("reno"),
        &[
            ("duration", "5s"),
            ("flows.bulk.cc", "bbr"),
            ("links.s1-s2.forward.loss", "1%"),
            ("links.\"s1-s2\".both.delay", "7ms"),
            ("hosts.*.sysctl.net.ipv4.tcp_rmem", "4096 87380 1000000"),
            ("hosts.h2.mtu", "9000"),
        ],
    )
    .unwrap();
    assert_eq!(scenario.duration, units::Time::from_secs(5));
    let scenario::FlowKind::Tcp(tcp) = &scenario.flows[0].kind else { panic!("not tcp") };
    assert_eq!(tcp.cc, Some(scenario::Cc::Named("bbr".into())), "the later layer overrides the earlier");
    assert_eq!(scenario.links[1].forward.loss.mean(), 0.01);
    assert_eq!(scenario.links[1].backward.delay, units::Time::from_millis(7));
    assert_eq!((scenario.hosts[0].mtu, scenario.hosts[1].mtu), (1500, 9000));
    assert_eq!(scenario.hosts[0].sysctl["net.ipv4.tcp_rmem"], "4096 87380 1000000");
}

#[test]
fn mistakes_on_the_command_line() {
    for (path, value, expected) in [
        ("flows.blk.cc", "reno", r#"--set flows.blk.cc=reno: unknown flow "blk"; did you mean "bulk"?"#),
        (
            "durration",
            "5s",
            r#"--set durration=5s: unknown key "durration" in a variant or --set; did you mean "duration"?"#,
        ),
        ("duration", "5", "--set duration=5: duration: `5` has no unit; write 5ms or 5s"),
        ("duration", "1s", "f.toml:23:9: with --set duration=1s: the flow never starts; the run lasts 1 s"),
        (
            "a..b",
            "1",
            "--set a..b=1: this is not the path of a setting; write for example flows.bulk.cc, links.s1-s2.forward.loss or hosts.*.mtu",
        ),
    ] {
        assert_eq!(resolve(None, &[(path, value)]).unwrap_err(), expected);
    }
    assert_eq!(
        resolve(Some("rneo"), &[]).unwrap_err(),
        r#"--variant rneo: unknown variant; did you mean "reno"?"#
    );
}

#[test]
fn deeply_nested_texts_are_rejected() {
    let dotted = format!("{}b = 1", "a.".repeat(100_000));
    let arrays = format!("a = {}", "[".repeat(100_000));
    let header = format!("[{}b]", "a.".repeat(100_000));
    for text in [dotted, arrays, header] {
        assert!(shown(&text).contains("this is not TOML"), "{:.200}", shown(&text));
    }
}
