//! `[[sweeps]]` of a whole file: its points, and the positions of mistakes in them.

use scenario::ScenarioFile;

const BASE: &str = r#"duration = "1s"
[hosts]
h1.address = "10.0.0.1/24"
h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "1gbit", delay = "10ms" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
"#;

fn parse(rest: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse("f.toml", &format!("{BASE}{rest}")).map_err(|e| e.to_string())
}

fn error(rest: &str) -> String {
    parse(rest).unwrap_err()
}

#[test]
fn points_resolve_as_the_same_set_options() {
    let file = parse(
        r#"[[sweeps]]
field = "flows.bulk.cc"
values = ["reno", { name = "griddt", a = 7 }]
[[sweeps]]
field = "links.h1-h2.forward.queue"
from = "10p"
to = "40p"
factor = 2
"#,
    )
    .unwrap();
    let points = file.points();
    assert_eq!(points.len(), 6);
    assert_eq!(
        points[5],
        [
            ("flows.bulk.cc".to_owned(), r#"{ "name" = "griddt", "a" = 7 }"#.to_owned()),
            ("links.h1-h2.forward.queue".to_owned(), "40p".to_owned())
        ]
    );
    let last = file.resolve(None, &points[5]).unwrap();
    assert_eq!(last.links[0].forward.queue, net::QueueLimit::Packets(40));
    assert!(last.to_toml().contains("griddt"), "{}", last.to_toml());
    assert_eq!(parse("").unwrap().points(), [vec![]]);
}

#[test]
fn a_wrong_value_has_its_position() {
    let queue = "[[sweeps]]\nfield = \"links.h1-h2.forward.queue\"\nvalues = [\"10p\", \"10q\"]\n";
    assert!(
        error(queue).starts_with("f.toml:14:18: with links.h1-h2.forward.queue = 10q: "),
        "{}",
        error(queue)
    );
    let link = error("[[sweeps]]\nfield = \"links.h1-h3.forward.queue\"\nvalues = [\"10p\"]\n");
    assert!(
        link.contains("f.toml:13:9:") && link.contains("unknown link \"h1-h3\"") && link.contains("h1-h2"),
        "{link}"
    );
    let key = error("[[sweeps]]\nfield = \"flows.bulk.recv_buffer\"\nvalues = [1]\n");
    assert!(key.contains("f.toml:13:9:") && key.contains("unknown key \"recv_buffer\""), "{key}");
    let none = error("[[sweeps]]\nvalues = [1]\n");
    assert!(none.contains("a sweep needs \"field\""), "{none}");
    let unknown = error("[[sweeps]]\nfield = \"seed\"\nvalues = [1]\nvalue = 2\n");
    assert!(unknown.contains("unknown key \"value\" in a sweep; did you mean \"values\"?"), "{unknown}");
    let date = error("[[sweeps]]\nfield = \"seed\"\nvalues = [1979-05-27]\n");
    assert!(date.contains("f.toml:14:11: a field cannot be a date"), "{date}");
}

#[test]
fn combinations_of_valid_values_are_checked() {
    // A flow may start at 800 ms, and a run may last 500 ms; not both.
    let both = "[[sweeps]]\nfield = \"duration\"\nvalues = [\"1s\", \"500ms\"]\n\
                [[sweeps]]\nfield = \"flows.bulk.start\"\nvalues = [\"100ms\", \"800ms\"]\n";
    let found = error(both);
    assert!(found.contains("with duration = 500ms, flows.bulk.start = 800ms: "), "{found}");
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn zipped_values_are_checked_together() {
    let zip = "[[sweeps]]\nfield = \"duration\"\nvalues = [\"1s\", \"3s\"]\nzip = \"z\"\n\
               [[sweeps]]\nfield = \"flows.bulk.start\"\nvalues = [\"100ms\", \"2s\"]\nzip = \"z\"\n";
    assert_eq!(parse(zip).unwrap().points().len(), 2);
    assert!(error(&zip.replace("zip = \"z\"\n", "")).contains("flows.bulk.start = 2s"));
}

#[test]
fn every_variant_is_swept() {
    let variants = "[[variants]]\nname = \"plain\"\nseed = 2\n[[variants]]\nname = \"ping\"\nflows.bulk.kind = \"ping\"\n";
    let sweep = "[[sweeps]]\nfield = \"flows.bulk.send_buffer\"\nvalues = [\"64KiB\"]\n";
    let found = error(&format!("{variants}{sweep}"));
    assert!(found.contains("send_buffer"), "{found}");
}
