//! Limits files of bwctl.

use limits::{Limits, TestRequest, Usage, import};
use proptest::prelude::*;

/// In the form of the example that bwctl came with.
const EXAMPLE: &str = "\
# a comment
limit root with \\
\tbandwidth=900m, \\
\tduration=0, \\
\tallow_udp=on, \\
\tallow_open_mode=off

limit jail with parent=root, \\
\tbandwidth=1, duration=1, allow_udp=off, allow_tcp=off, allow_open_mode=off
limit wide with parent=root, bandwidth=0, pending=5, event_horizon=300, allow_open_mode=on
LIMIT narrow WITH Parent = wide , Duration = 30, max_time_error=20, bandwidth=2g, minimum_ttl=2

assign default jail
assign net ::/127 wide
assign net 127.0.0.1/32 wide
assign net 198.51.100.0/23 narrow
assign user alice root
";

fn example() -> limits::Imported {
    // 198.51.100.0/23 has no bits after its prefix.
    import(EXAMPLE).unwrap()
}

fn decided(user: Option<&str>, address: &str, test: &str) -> String {
    let request = TestRequest {
        user: user.map(String::from),
        address: address.parse().ok(),
        ..TestRequest::parse_test(test).unwrap()
    };
    example().limits.decide(&request, &Usage::default()).to_string()
}

#[test]
fn decisions_agree_with_bwctl() {
    // The class `wide` is open although the root is not: bwctl checks this permission of the class alone.
    assert_eq!(decided(None, "127.0.0.1", "tcp"), "allowed in class wide");
    assert_eq!(decided(None, "198.51.101.9", "udp,900mbit,30s"), "allowed in class narrow");
    let root_rate = decided(None, "198.51.101.9", "udp,901mbit,30s");
    assert!(root_rate.starts_with("refused by max_rate of class narrow"), "{root_rate}");
    assert!(decided(None, "198.51.101.9", "tcp,31s").starts_with("refused by max_duration of class narrow"));
    assert!(decided(None, "::1", "tcp,in=301s").starts_with("refused by max_horizon of class wide"));
    assert!(
        decided(None, "203.0.113.1", "tcp,1s").starts_with("refused by allow_open = false of class jail")
    );
    assert!(
        decided(Some("bob"), "203.0.113.1", "tcp,1s")
            .starts_with("refused by allow_tcp = false of class jail")
    );
    assert_eq!(decided(Some("alice"), "203.0.113.1", "udp,900mbit,3000s"), "allowed in class root-itself");
}

#[test]
fn changed_and_skipped_entries_are_noted() {
    let notes: Vec<(usize, String)> =
        example().notes.into_iter().map(|note| (note.line, note.text)).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes[0], (11, "class narrow: minimum_ttl is skipped: longfat has no such limit".into()));
    assert_eq!(
        notes[1],
        (11, "class narrow: bandwidth is that of its parent, which is smaller: 900000000".into())
    );
    assert!(notes[2].1.contains("its users and networks are now assigned to root-itself"), "{notes:?}");
}

#[test]
fn the_printed_toml_parses_to_the_same_limits() {
    let limits = example().limits;
    assert_eq!(limits.to_string().parse::<Limits>().unwrap(), limits);
}

#[test]
fn an_empty_file_gives_bwctlds_default_limits() {
    let imported = import("# nothing\n").unwrap();
    assert!(imported.limits.to_string().contains("max_duration = \"30 s\""), "{}", imported.limits);
    assert_eq!(imported.notes.len(), 1);
}

#[test]
fn mistakes_have_their_line() {
    for (text, expected) in [
        ("limit root with all_udp=on", "line 1: unknown limit \"all_udp\""),
        ("\n\nlimit root", "line 3: the form is"),
        ("limit root with duration=long", "line 1: duration: \"long\" is not a number"),
        (
            "limit root with duration=1\nlimit root with parent=root",
            "line 2: the class root is defined twice",
        ),
        (
            "limit root with duration=1\nlimit a with duration=1",
            "line 2: a needs parent=NAME; the root is root",
        ),
        ("limit a with parent=root", "line 1: a is the root"),
        (
            "limit root with duration=1\nassign net 10.0.0.1/8 root",
            "line 2: 10.0.0.1/8 has bits after its prefix",
        ),
        ("limit root with duration=1\nassign default jail", "line 2: the class jail is not defined"),
        (
            "limit root with duration=1\nassign host h root",
            "line 2: \"host\" is neither default, net nor user",
        ),
        ("permit all", "line 1: \"permit\" is neither limit nor assign"),
        ("limit root with allow_tcp=yes", "line 1: allow_tcp is on or off, not \"yes\""),
        ("limit root with duration=1, duration=2", "line 1: duration has two values"),
        ("limit root with bandwidth=99999999999g", "line 1: bandwidth"),
    ] {
        let error = import(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_an_error_or_limits_that_print_and_parse_to_the_same(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "limit", "assign", "with", "root", "a", "b", "parent=root,", "parent=a,", "duration=5,", "pending=0,",
                "bandwidth=1g,", "allow_udp=on,", "allow_udp=off,", "allow_open_mode=off,", "default", "net", "user",
                "10.0.0.0/8", "::/0", "\\", "\n", "\n", "\n", "=", ",", "#", "limit root with duration=9\n",
                "limit a with parent=root, allow_udp=on\n", "assign default root\n", "é",
            ]),
            0..40,
        )
    ) {
        if let Ok(imported) = import(&words.join(" ")) {
            let text = imported.limits.to_string();
            prop_assert_eq!(text.parse::<Limits>().unwrap(), imported.limits);
        }
    }
}
