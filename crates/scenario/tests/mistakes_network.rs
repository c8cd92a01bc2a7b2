//! Each mistake in the network's keys: directions, changes, interfaces, routers. See `mistakes.rs`.

use scenario::ScenarioFile;

/// A valid file; each case changes one thing in it.
const GOOD: &str = r#"duration = "20s"
[hosts.h1]
address = "10.0.1.1/24"
[hosts.h2]
address = "10.0.2.1/24"
[routers.r1]
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
forward = { rate = "10mbit", delay = "20ms" }
[[links]]
ends = ["s1", "r1"]
[[links]]
ends = ["r1", "h2"]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
"#;

/// Each case: the text to replace in `GOOD` (once), its replacement, and the expected message.
fn check(cases: &[(&str, &str, &str)]) {
    for (find, replace, expected) in cases {
        assert!(GOOD.contains(find), "{find} is not in the file");
        let shown = shown(&GOOD.replacen(find, replace, 1));
        assert_eq!(shown, *expected, "{find} replaced by {replace}");
    }
}

fn shown(text: &str) -> String {
    let load = |path: &str| match path {
        "good.trace" => Ok("1\n2\n3\n".to_owned()),
        "bad.trace" => Ok("1\ntwo\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    match ScenarioFile::parse_with("f.toml", text, &load) {
        Ok(_) => "no mistakes".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_base_is_valid() {
    assert_eq!(shown(GOOD), "no mistakes");
    assert_eq!(shown(&GOOD.replace("rate = \"10mbit\"", "trace = \"good.trace\"")), "no mistakes");
}

#[test]
fn rates_and_traces() {
    check(&[
        (
            r#"delay = "20ms""#,
            r#"trace = "x.trace""#,
            r#"f.toml:11:20: a direction has a rate or a trace, not both; remove one of them
f.toml:11:38: trace: cannot use "x.trace": no such file"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"trace_period = "1s""#,
            r#"f.toml:11:45: "trace_period" is only for a trace of steps; remove it"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"trace_format = "csv""#,
            r#"f.toml:11:45: "trace_format" is only for a trace file; remove it"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = 7"#,
            r#"f.toml:11:21: "trace" is a file's name or a list of steps, not an integer; write for example trace = [[0, "10mbit"], ["5s", "2mbit"]]"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = "missing.trace""#,
            r#"f.toml:11:21: trace: cannot use "missing.trace": no such file"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = "../x.trace""#,
            r#"f.toml:11:21: trace: cannot use "../x.trace": only files in the scenario's folder and its subfolders are allowed"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = "good.trace", trace_format = "cvs""#,
            r#"f.toml:11:50: "trace_format" cannot be "cvs"; did you mean "csv"?"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = "bad.trace""#,
            r#"f.toml:11:21: trace: cannot use "bad.trace": line 2: `two` is not a whole number of milliseconds"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = "good.trace", trace_format = "csv""#,
            r#"f.toml:11:21: trace: cannot use "good.trace": line 1: `1` is not `time,rate`"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0, "1mbit"]]"#,
            r#"f.toml:11:21: a trace of steps needs "trace_period"; set when it repeats: trace_period = "10s""#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [], trace_period = "1s""#,
            r#"f.toml:11:21: a trace needs at least one step; write for example trace = [[0, "10mbit"], ["5s", "2mbit"]]"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [["1s", "1mbit"]], trace_period = "5s""#,
            r#"f.toml:11:22: the first step of a trace must be at 0; write for example trace = [[0, "10mbit"], ["5s", "2mbit"]]"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0, "1mbit"], ["2s", "1mbit"], ["1s", "1mbit"]], trace_period = "5s""#,
            r#"f.toml:11:53: the steps of a trace must have ascending times; write for example trace = [[0, "10mbit"], ["5s", "2mbit"]]"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0, "1mbit"], ["9s", "1mbit"]], trace_period = "5s""#,
            r#"f.toml:11:69: the trace repeats at 5 s, before its last step; write more than 9 s"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0, "1m"]], trace_period = "5s""#,
            r#"f.toml:11:26: rate: `1m` is ambiguous; write 1 Mbit/s or 1 MB/s"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[5, "1mbit"]], trace_period = "5s""#,
            r#"f.toml:11:23: the time of a step is a string, not an integer; write for example trace = [[0, "10mbit"], ["5s", "2mbit"]]"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0]], trace_period = "5s""#,
            r#"f.toml:11:22: a step of a trace is a time and a rate; write for example trace = [[0, "10mbit"], ["5s", "2mbit"]]"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0, "2Tbit"]], trace_period = "5s""#,
            r#"f.toml:11:22: the time or the rate of this step is too large; write at most 30 days and 1 Tb/s"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = [[0, "0bit"]], trace_period = "5s""#,
            r#"f.toml:11:21: the trace has a rate of zero throughout; write at least one rate above zero"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = { mahimahi = [2, 1] }"#,
            r#"f.toml:11:38: this is not a time of a mahimahi trace; write whole milliseconds in ascending order"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = { mahimahi = [0] }"#,
            r#"f.toml:11:34: a mahimahi trace must be a list of milliseconds whose last is above 0; write for example trace = { mahimahi = [1, 2, 5] }"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = { mahimai = [1] }"#,
            r#"f.toml:11:21: a trace needs "mahimahi"; for example mahimahi = [1, 2, 5]
f.toml:11:23: unknown key "mahimai" in a trace; did you mean "mahimahi"?"#,
        ),
    ]);
}

#[test]
fn jitter_and_reordering() {
    check(&[
        (r#"delay = "20ms""#, r#"jitter = "2""#, r#"f.toml:11:39: jitter: `2` has no unit; write 2ms or 2s"#),
        (
            r#"delay = "20ms""#,
            r#"jitter = "2ms", distribution = "gauss""#,
            r#"f.toml:11:61: "distribution" cannot be "gauss"; expected one of: uniform, normal, pareto"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"distribution = "normal""#,
            r#"f.toml:11:45: "distribution" needs "jitter"; write for example jitter = "2ms""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"jitter_reorders = true"#,
            r#"f.toml:11:48: "jitter_reorders" needs "jitter"; write for example jitter = "2ms""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"jitter = "1ms", jitter_reorders = "yes""#,
            r#"f.toml:11:64: "jitter_reorders" is true or false, not a string; write jitter_reorders = true, without quotes"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"duplicate = 2"#,
            r#"f.toml:11:42: duplicate: `2` is outside 0 to 1; write a share as 0.01 or 1%"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"corrupt = "x""#,
            r#"f.toml:11:40: corrupt: `x` does not begin with a number; write for example 0.01 or 1%"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"reorder = "101%""#,
            r#"f.toml:11:40: reorder: `101%` is outside 0 to 1; write a share as 0.01 or 1%"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"reorder_gap = 5"#,
            r#"f.toml:11:44: "reorder_gap" needs "reorder"; write for example reorder = "1%""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"reorder = "1%", reorder_gap = 0"#,
            r#"f.toml:11:60: "reorder_gap" cannot be 0; write a whole number from 1 to 4294967295"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"reorder = "1%", reorder_gpa = 2"#,
            r#"f.toml:11:46: unknown key "reorder_gpa" in a link's direction; did you mean "reorder_gap"?"#,
        ),
    ]);
}

#[test]
fn losses() {
    check(&[
        (r#"delay = "20ms""#, r#"loss = 1"#, r#"f.toml:11:37: loss: `1` is ambiguous; write 1% or 100%"#),
        (r#"delay = "20ms""#, r#"loss = []"#, r#"f.toml:11:37: "loss" is a string, not a list"#),
        (
            r#"delay = "20ms""#,
            r#"loss = {}"#,
            r#"f.toml:11:37: this loss has no model; write a rate, every, packets or at, or model = "gilbert-elliott" with to_bad and to_good"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { evry = 5 }"#,
            r#"f.toml:11:37: this loss has no model; write a rate, every, packets or at, or model = "gilbert-elliott" with to_bad and to_good
f.toml:11:39: unknown key "evry" in a loss; did you mean "every"?"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { every = 0 }"#,
            r#"f.toml:11:47: "every" cannot be 0; write a whole number from 1 to 18446744073709551615"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { every = 10, count = 2 }"#,
            r#"f.toml:11:51: the loss model "every" has no key "count"; it has every"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { packets = [0] }"#,
            r#"f.toml:11:50: this is not a packet number; write whole numbers; the first packet is 1"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { packets = [] }"#,
            r#"f.toml:11:49: "packets" is empty; write for example packets = [3, 10]"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { at = [] }"#,
            r#"f.toml:11:44: "at" is empty; write for example at = ["5s"]"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { at = ["5"] }"#,
            r#"f.toml:11:45: at: `5` has no unit; write 5ms or 5s"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { at = ["5s"], count = 0 }"#,
            r#"f.toml:11:60: "count" cannot be 0; write a whole number from 1 to 4294967295"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { at = [5] }"#,
            r#"f.toml:11:45: "at" is a string or a list of strings, not an integer"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { rate = "1%", unit = "packet" }"#,
            r#"f.toml:11:59: "unit" cannot be "packet"; expected one of: segment, super-packet"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { model = "gilbert" }"#,
            r#"f.toml:11:47: unknown loss model "gilbert"; expected one of: independent, gilbert-elliott, every, packets, at"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { model = "gilbert-elliott", to_bad = 0.1 }"#,
            r#"f.toml:11:37: a loss needs "to_good"; for example to_good = "10%""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { model = "gilbert-elliott", to_bad = 2, to_good = 1 }"#,
            r#"f.toml:11:75: to_bad: `2` is outside 0 to 1; write a share as 0.01 or 1%"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { to_bad = 0.1, to_good = 1 }"#,
            r#"f.toml:11:37: this loss has no model; write a rate, every, packets or at, or model = "gilbert-elliott" with to_bad and to_good"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"loss = { model = "every", rate = 0.1 }"#,
            r#"f.toml:11:56: the loss model "every" has no key "rate"; it has every"#,
        ),
    ]);
}

#[test]
fn disciplines() {
    check(&[
        (
            r#"delay = "20ms""#,
            r#"qdisc = "codle""#,
            r#"f.toml:11:38: unknown qdisc "codle"; did you mean "codel"?"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = 5"#,
            r#"f.toml:11:38: "qdisc" is a name or a table, not an integer; write for example qdisc = "codel""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = {}"#,
            r#"f.toml:11:38: a qdisc needs "kind"; for example kind = "codel""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = 5 }"#,
            r#"f.toml:11:38: the kind of a qdisc is a string; write kind = "codel""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "codel", targte = "5ms" }"#,
            r#"f.toml:11:56: unknown key "targte" in the qdisc codel; did you mean "target"?"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "codel", target = "0s" }"#,
            r#"f.toml:11:65: "target" cannot be zero; write for example target = "20s""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "codel", interval = "1" }"#,
            r#"f.toml:11:67: interval: `1` has no unit; write 1ms or 1s"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "codel", ecn = 1 }"#,
            r#"f.toml:11:62: "ecn" is true or false, not an integer; write ecn = true, without quotes"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"ecn = true"#,
            r#"f.toml:11:36: "ecn" has no effect with the qdisc droptail; set a threshold: qdisc = { kind = "droptail", mark_above = "100p" }"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = "fq", ecn = true"#,
            r#"f.toml:11:50: "ecn" has no effect with the qdisc fq; qdiscs that mark: red, codel, fq_codel"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = "dualpi2", ecn = true"#,
            r#"f.toml:11:55: "ecn" has no effect with the qdisc dualpi2; dualpi2 always marks: remove it"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "red", min = "9kB", max = "9kB" }"#,
            r#"f.toml:11:60: RED's min of 9 kB is not below its max of 9 kB; write a smaller min"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "red", max = "0B" }"#,
            r#"f.toml:11:60: "max" cannot be zero; write for example max = "25MB""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "red", probability = 0 }"#,
            r#"f.toml:11:68: "probability" cannot be zero; write for example probability = 0.1"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "red", weight = 2 }"#,
            r#"f.toml:11:63: "weight" cannot be 2; write a number from 0.000001 to 1"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "red", gentle = "no" }"#,
            r#"f.toml:11:63: "gentle" is true or false, not a string; write gentle = true, without quotes"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "fq_codel", flows = 0 }"#,
            r#"f.toml:11:67: "flows" cannot be 0; write a whole number from 1 to 65536"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "fq", quantum = 10 }"#,
            r#"f.toml:11:63: "quantum" cannot be 10; write a whole number from 68 to 1000000 bytes"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "fq", target = "5ms" }"#,
            r#"f.toml:11:53: unknown key "target" in the qdisc fq; expected one of: kind, flows, quantum"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "dualpi2", alpha = -1 }"#,
            r#"f.toml:11:66: "alpha" cannot be -1; write a number from 0 to 1000"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "dualpi2", coupling = "2" }"#,
            r#"f.toml:11:69: "coupling" is a number, not a string"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "dualpi2", step = "x" }"#,
            r#"f.toml:11:65: step: `x` does not begin with a number; write for example 20ms"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "dualpi2", update = "0s" }"#,
            r#"f.toml:11:67: "update" cannot be zero; write for example update = "20s""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "xcp", shuffle = 1.5 }"#,
            r#"f.toml:11:64: "shuffle" cannot be 1.5; write a number from 0 to 1"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "xcp", beta = 1e9 }"#,
            r#"f.toml:11:61: "beta" cannot be 1000000000; write a number from 0 to 1000"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"qdisc = { kind = "droptail", mark_above = "0p" }"#,
            r#"f.toml:11:72: "mark_above" cannot be zero; write for example "25MB" or "100p""#,
        ),
        (
            r#"delay = "20ms""#,
            r#"mtu = 67"#,
            r#"f.toml:11:36: "mtu" cannot be 67; write a whole number from 68 to 65521 bytes"#,
        ),
        (
            r#"delay = "20ms""#,
            r#"down = 1"#,
            r#"f.toml:11:37: "down" is true or false, not an integer; write down = true, without quotes"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"trace = { mahimahi = [1, 2] }, burst = "10kB""#,
            r#"f.toml:11:52: "burst" has no effect with a trace; remove it"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"qdisc = "codel""#,
            r#"f.toml:11:21: "qdisc" has no effect without "rate"; give this direction a rate"#,
        ),
        (
            r#"rate = "10mbit""#,
            r#"ecn = true"#,
            r#"f.toml:11:19: "ecn" has no effect without "rate"; give this direction a rate
f.toml:11:19: "ecn" has no effect with the qdisc droptail; set a threshold: qdisc = { kind = "droptail", mark_above = "100p" }"#,
        ),
    ]);
}

#[test]
fn changes() {
    check(&[
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = 5
"#,
            r#"f.toml:16:11: "changes" is a list of tables, not an integer; write for example changes = [{ at = "30s", both = { delay = "50ms" } }]"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [5]
"#,
            r#"f.toml:16:12: a change of a link is a table, not an integer"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ both = { delay = "1ms" } }]
"#,
            r#"f.toml:16:12: a change of a link needs "at"; for example at = "30s""#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5" }]
"#,
            r#"f.toml:16:12: this change has no effect; write for example both = { delay = "50ms" }
f.toml:16:19: at: `5` has no unit; write 5ms or 5s"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5s" }]
"#,
            r#"f.toml:16:12: this change has no effect; write for example both = { delay = "50ms" }"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5s", bth = { delay = "1ms" } }]
"#,
            r#"f.toml:16:12: this change has no effect; write for example both = { delay = "50ms" }
f.toml:16:25: unknown key "bth" in a change of a link; did you mean "both"?"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5s", both = { dealy = "1ms" } }]
"#,
            r#"f.toml:16:34: unknown key "dealy" in a link's direction; did you mean "delay"?"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5s", both = { delay = "1ms" } }, { at = "5s", forward = { loss = 0 } }]
"#,
            r#"f.toml:16:60: two changes at 5 s; put both into one change"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5s", forward = { queue = "9p" } }]
"#,
            r#"f.toml:16:45: "queue" has no effect without "rate"; give this direction a rate"#,
        ),
        (
            r#"ends = ["r1", "h2"]
"#,
            r#"ends = ["r1", "h2"]
changes = [{ at = "5s", forward = { rate = "1mbit", queue = "9B" } }]
"#,
            r#"f.toml:16:11: a queue of 9 B is too small for one packet; the largest is 1500 + 14 = 1514 B"#,
        ),
    ]);
}

#[test]
fn hosts_on_networks() {
    check(&[
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = []
"#,
            r#"f.toml:3:11: "address" is an empty list; write for example "10.0.0.1/8""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = ["10.0.1.1/24", 5]
"#,
            r#"f.toml:3:27: "address" is a string or a list of strings, not an integer"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
interfaces = 5
"#,
            r#"f.toml:4:14: "interfaces" is a table of interfaces, not an integer; write for example interfaces = { eth1 = "10.1.0.1/24" }"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
interfaces = { eth1 = "10.3.0.1/24" }
"#,
            r#"f.toml:4:16: h1 has no interface eth1; it has one link, so only eth0, in the order of the links"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
interfaces = { wlan0 = "10.3.0.1/24" }
"#,
            r#"f.toml:4:16: unknown interface "wlan0"; an interface is called eth0, eth1 and so on, in the order of the links"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
interfaces = { eth0 = "10.3.0.1/24" }
"#,
            r#"f.toml:4:16: the address of this interface is set twice; remove one of them"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"interfaces = { eth0 = "10.3.0.1" }
"#,
            r#"f.toml:3:23: address: "10.3.0.1" has no prefix length; write for example "10.0.0.1/8""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gateway = "10.0.1"
"#,
            r#"f.toml:4:11: gateway: "10.0.1" is not an IP address; write for example gateway = "10.0.0.254""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gateway = "10.0.1.9/24"
"#,
            r#"f.toml:4:11: gateway: "10.0.1.9/24" is a network; write only the address: "10.0.1.9"; write for example gateway = "10.0.0.254""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gateway = ["10.0.1.9", "10.0.1.8"]
"#,
            r#"f.toml:4:24: two gateways of the same IP version; write one for IPv4 and one for IPv6 at most"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gateway = "10.0.9.9"
"#,
            r#"f.toml:4:11: h1 has no network with the next hop 10.0.9.9; write the address of a router in one of its networks"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = 5
"#,
            r#"f.toml:4:10: "routes" is a list of tables, not an integer; write for example routes = [{ to = "10.2.0.0/16", via = "10.0.0.254" }]"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = [{ to = "10.2.0.1/16", via = "10.0.1.9" }]
"#,
            r#"f.toml:4:18: to: 10.2.0.1/16 has bits set after its prefix; the network is 10.2.0.0/16; write for example routes = [{ to = "10.2.0.0/16", via = "10.0.0.254" }]"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = [{ to = "10.2.0.0/16" }]
"#,
            r#"f.toml:4:11: a route needs "via"; for example via = "10.0.0.254""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = [{ to = "10.2.0.0/16", via = "10.0.9.9" }]
"#,
            r#"f.toml:4:39: h1 has no network with the next hop 10.0.9.9; write the address of a router in one of its networks"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = [{ to = "fd00::/16", via = "10.0.1.9" }]
"#,
            r#"f.toml:4:37: the route to fd00::/16 cannot have the next hop 10.0.1.9: their IP versions differ; write for example routes = [{ to = "10.2.0.0/16", via = "10.0.0.254" }]"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = [{ to = "10.2.0.0/16", via = "x" }]
"#,
            r#"f.toml:4:39: via: "x" is not an IP address; write for example routes = [{ to = "10.2.0.0/16", via = "10.0.0.254" }]"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
routes = [{ to = "default", vai = "10.0.1.9" }]
"#,
            r#"f.toml:4:11: a route needs "via"; for example via = "10.0.0.254"
f.toml:4:29: unknown key "vai" in a route; did you mean "via"?"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
nic = 5
"#,
            r#"f.toml:4:7: a nic is a table, not an integer"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
nic = { tx_queu = 5 }
"#,
            r#"f.toml:4:9: unknown key "tx_queu" in a nic; did you mean "tx_queue"?"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
tx_queue = 0
"#,
            r#"f.toml:4:12: "tx_queue" cannot be 0; write a whole number from 1 to 1000000 packets"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
tx_queue = "100"
"#,
            r#"f.toml:4:12: "tx_queue" cannot be "100"; write a number of packets: 100 or "100p""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
nic = { gso = "1kB" }
"#,
            r#"f.toml:4:15: "gso" cannot be 1 kB; write a size from 1500B (one packet) to 65535B"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gso = "70kB"
"#,
            r#"f.toml:4:7: "gso" cannot be 70 kB; write a size from 1500B (one packet) to 65535B"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
tso = "off"
"#,
            r#"f.toml:4:7: "tso" is true or false, not a string; write tso = true, without quotes"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
tso = false
gso = "16kB"
"#,
            r#"f.toml:4:7: super-packets ("gso") need tso; remove "tso" or "gso""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
tso = false
gso_segs = 4
"#,
            r#"f.toml:4:7: super-packets ("gso_segs") need tso; remove "tso" or "gso_segs""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
segmentation = "card"
"#,
            r#"f.toml:4:16: "segmentation" cannot be "card"; write "software" or "device""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
kernel = "2.4"
hz = 250
"#,
            r#"f.toml:5:6: Linux 2.4 always has 100 ticks per second; remove "hz""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gro = 0
"#,
            r#"f.toml:4:7: "gro" cannot be 0; write a whole number from 1 to 1000 segments"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
start = " "
"#,
            r#"f.toml:4:9: "start" is empty, longer than 65536 bytes, or has a NUL character; write for example start = "ping -c1 10.0.0.2""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
stop = 5
"#,
            r#"f.toml:4:8: "stop" is a string, not an integer"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
clock_offset = "1ms"
"#,
            r#"f.toml:4:1: unknown key "clock_offset" in a host; expected one of: address, mtu, kernel, hz, local_congestion, turnaround, receive_jitter, cost, sysctl, interfaces, gateway, routes, nic, tx_queue, tso, gso, gso_segs, segmentation, gro, at, start, stop"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
kernel = "2.6.32"
"#,
            r#"f.toml:4:10: kernel "2.6.32" is not simulated; the simulator has 2.4, 2.4-web100, and 5.0 and later; write for example "2.4" or "6.1""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
kernel = "6.1-web100"
"#,
            r#"f.toml:4:10: kernel "6.1-web100" is not simulated; the simulator has 2.4, 2.4-web100, and 5.0 and later; write for example "2.4" or "6.1""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
local_congestion = "no"
"#,
            r#"f.toml:4:20: "local_congestion" is true or false, not a string; write local_congestion = true, without quotes"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
at = "node2:0"
"#,
            r#"f.toml:4:6: "node2:0": a port is a number from 1 to 65535; write for example "node2.example.org:5201", or "here" for this machine"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
turnaround = "15s"
"#,
            r#"f.toml:4:14: "turnaround" is over 1 s; write for example "15us"; longfat lab check measures this machine's turnaround"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
cost = "server-2004"
"#,
            r#"f.toml:4:8: "cost" cannot be "server-2004"; did you mean "server-2003"?"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
cost = 5
"#,
            r#"f.toml:4:8: "cost" is a table or a preset's name, not an integer; write for example cost = "server-2003""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
cost = { per_byte = "0.1ps" }
"#,
            r#"f.toml:4:21: per_byte: `0.1ps` is too small; the smallest time above zero is 1 ps"#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
cost = { per_packet = "4s" }
"#,
            r#"f.toml:4:23: "per_packet" exceeds 1 s; write for example "4us""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
cost = { rx_delay = "1s" }
"#,
            r#"f.toml:4:21: "rx_delay" exceeds 67.10784 ms; write for example "64us""#,
        ),
        (
            r#"address = "10.0.1.1/24"
"#,
            r#"address = "10.0.1.1/24"
gatway = "10.0.1.9"
"#,
            r#"f.toml:4:1: unknown key "gatway" in a host; did you mean "gateway"?"#,
        ),
    ]);
}

#[test]
fn routers() {
    check(&[
        (
            r#"[routers.r1]
"#,
            r#"[routers]
r1 = 5
"#,
            r#"f.toml:7:6: a router is a table, not an integer"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers]
names = "r1"
"#,
            r#"f.toml:7:9: "names" is a list of strings, not a string; write names = ["r1", "r2"]"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers]
names = ["r1", "r1"]
"#,
            r#"f.toml:7:16: two routers are called "r1"; give it another name"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers]
names = ["r1", 7]
"#,
            r#"f.toml:7:16: "names" is a string or a list of strings, not an integer"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers]
names = ["r1", "names"]
"#,
            r#"f.toml:7:16: no router can be called "names"; give it another name"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers]
names = ["r1", "r2"]
"#,
            r#"f.toml:7:9: the router r2 has no link; for example ends = ["r2", "s1"] under [[links]]"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
[routers.s1]
"#,
            r#"f.toml:7:1: "s1" is already a switch"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
[routers.h2]
"#,
            r#"f.toml:7:1: "h2" is already a host"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
[routers."r 2"]
"#,
            r#"f.toml:7:10: "r 2" cannot name a router; write letters, digits, _ and -, and no - at the start"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.a_long_name]
[routers.r1]
"#,
            r#"f.toml:6:10: the router name "a_long_name" is too long; write at most 10 characters (its device is called a_long_name-eth0)"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
prts = {}
"#,
            r#"f.toml:7:1: unknown key "prts" in a router; did you mean "ports"?"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
ports = 5
"#,
            r#"f.toml:7:9: "ports" is a table of neighbours, not an integer; write for example ports = { s1 = "10.0.1.254/24" }"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
ports = { s2 = "10.0.1.9/24" }
"#,
            r#"f.toml:7:11: no link joins r1 with "s2"; did you mean "s1"?"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
ports = { s1 = "10.0.1.9" }
"#,
            r#"f.toml:7:16: address: "10.0.1.9" has no prefix length; write for example "10.0.0.1/8""#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
ports = { s1 = "10.0.1.9/24" }
interfaces = { eth0 = "10.0.1.8/24" }
"#,
            r#"f.toml:7:11: the address of this interface is set twice; remove one of them"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
interfaces = { eth2 = "10.0.1.9/24" }
"#,
            r#"f.toml:7:16: r1 has no interface eth2; it has 2 links, so eth0 to eth1, in the order of the links"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
interfaces = { eth01 = "10.0.1.9/24" }
"#,
            r#"f.toml:7:16: unknown interface "eth01"; an interface is called eth0, eth1 and so on, in the order of the links"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
interfaces = { eth1 = "10.0.1.9/24" }
"#,
            r#"f.toml:7:23: 10.0.1.9/24 of r1 and 10.0.1.1/24 of h1 overlap, with a router between them; give each side of the router a different network"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
interfaces = { eth0 = "10.0.1.1/24" }
"#,
            r#"f.toml:7:23: h1 already has the address 10.0.1.1; give each host a different address"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
routes = [{ to = "10.9.0.0/16", via = "10.8.0.1" }]
"#,
            r#"f.toml:7:39: r1 has no network with the next hop 10.8.0.1; write the address of a router in one of its networks"#,
        ),
        (
            r#"[routers.r1]
"#,
            r#"[routers.r1]
ttl = 5
"#,
            r#"f.toml:7:1: unknown key "ttl" in a router; expected one of: interfaces, ports, routes"#,
        ),
        (
            r#"to = "h2"
"#,
            r#"to = "r1"
"#,
            r#"f.toml:19:6: "r1" is a router, not a host; hosts are h1, h2"#,
        ),
    ]);
}

#[test]
fn captures_and_readers() {
    check(&[
        (
            r#"duration = "20s"
"#,
            r#"duration = "20s"
capture = "h3"
"#,
            r#"f.toml:2:11: no host or link is called "h3"; did you mean "h1"?"#,
        ),
        (
            r#"duration = "20s"
"#,
            r#"duration = "20s"
capture = ["h1", "h1"]
"#,
            r#"f.toml:2:18: "h1" is listed twice; list it once"#,
        ),
        (
            r#"duration = "20s"
"#,
            r#"duration = "20s"
capture = [5]
"#,
            r#"f.toml:2:12: "capture" is a string or a list of strings, not an integer"#,
        ),
        (
            r#"duration = "20s"
"#,
            r#"duration = "20s"
captur = ["h1"]
"#,
            r#"f.toml:2:1: unknown key "captur" in a scenario; did you mean "capture"?"#,
        ),
        (
            r#"to = "h2"
"#,
            r#"to = "h2"
reader_stops = "5"
"#,
            r#"f.toml:20:16: reader_stops: `5` has no unit; write 5ms or 5s"#,
        ),
        (
            r#"to = "h2"
"#,
            r#"to = "h2"
reader_resumes = "8s"
"#,
            r#"f.toml:20:18: the reader never stops; add "reader_stops""#,
        ),
        (
            r#"to = "h2"
"#,
            r#"to = "h2"
reader_stops = "8s"
reader_resumes = "8s"
"#,
            r#"f.toml:21:18: the reader resumes before it stops; write a time after 8 s"#,
        ),
        (
            r#"to = "h2"
"#,
            r#"to = "h2"
kind = "ping"
reader_stops = "8s"
"#,
            r#"f.toml:21:1: unknown key "reader_stops" in a ping flow; expected one of: name, from, to, kind, start, stop, interval, count, payload"#,
        ),
        (
            r#"duration = "20s"
"#,
            r#""#,
            r#"f.toml:1:1: a scenario needs "duration"; for example duration = "20s""#,
        ),
    ]);
}
