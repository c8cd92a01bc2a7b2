//! Every example of the reference is valid, and the reference has every key.

use scenario::ScenarioFile;

const REFERENCE: &str = include_str!("../../../docs/scenario.md");

fn examples() -> Vec<&'static str> {
    let fenced = REFERENCE.split("```toml\n").skip(1);
    fenced.map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

/// The reference's own C file.
fn load(path: &str) -> Result<String, String> {
    (path == "my.bpf.c").then(|| "const volatile int beta = 1;\n".into()).ok_or_else(|| "no such file".into())
}

#[test]
fn every_example_resolves_and_prints_to_the_same() {
    let examples = examples();
    assert!(examples.len() >= 10, "{} examples", examples.len());
    for text in examples {
        let file =
            ScenarioFile::parse_with("docs.toml", text, &load).unwrap_or_else(|e| panic!("{e}\n{text}"));
        for variant in file.variants().map(Some).chain([None]) {
            let scenario = file.resolve(variant, &[]).unwrap();
            let again = ScenarioFile::parse("docs.toml", &scenario.to_toml()).unwrap();
            assert_eq!(again.resolve(None, &[]).unwrap(), scenario);
        }
    }
}

/// The error for an unknown key lists the valid keys. Each of them is in the reference.
#[test]
fn the_reference_has_every_key() {
    let network = "[[links]]\nends = [\"h1\", \"h2\"]\n[hosts.h1]\naddress = \"10.0.0.1/8\"\n[hosts.h2]\naddress = \"10.0.0.2/8\"\n";
    let mut known = 0;
    for (what, text) in [
        ("a scenario", "qqqqqqqqqq = 1\n".to_owned() + network),
        ("a host", network.to_owned() + "qqqqqqqqqq = 1\n"),
        ("a nic", network.to_owned() + "nic = { qqqqqqqqqq = 1 }\n"),
        ("a router", network.to_owned() + "[routers.r1]\nqqqqqqqqqq = 1\n"),
        ("a link", network.replace("[hosts.h1]", "qqqqqqqqqq = 1\n[hosts.h1]")),
        ("a link's direction", network.replace("[hosts.h1]", "forward = { qqqqqqqqqq = 1 }\n[hosts.h1]")),
        ("a loss", network.replace("[hosts.h1]", "forward = { loss = { qqqqqqqqqq = 1 } }\n[hosts.h1]")),
        ("a flow", network.to_owned() + "[[flows]]\nqqqqqqqqqq = 1\n"),
        ("a sweep", network.to_owned() + "[[sweeps]]\nqqqqqqqqqq = 1\n"),
        ("a ping flow", network.to_owned() + "[[flows]]\nkind = \"ping\"\nqqqqqqqqqq = 1\n"),
        ("a udp flow", network.to_owned() + "[[flows]]\nkind = \"udp\"\nqqqqqqqqqq = 1\n"),
        ("a udt flow", network.to_owned() + "[[flows]]\nkind = \"udt\"\nqqqqqqqqqq = 1\n"),
        ("a tsunami flow", network.to_owned() + "[[flows]]\nkind = \"tsunami\"\nqqqqqqqqqq = 1\n"),
        ("a stream flow", network.to_owned() + "[[flows]]\nkind = \"stream\"\nqqqqqqqqqq = 1\n"),
        ("a quic flow", network.to_owned() + "[[flows]]\nkind = \"quic\"\nqqqqqqqqqq = 1\n"),
        ("an xcp flow", network.to_owned() + "[[flows]]\nkind = \"xcp\"\nqqqqqqqqqq = 1\n"),
    ] {
        let shown = ScenarioFile::parse("x.toml", &text).unwrap_err().to_string();
        let list = format!("unknown key \"qqqqqqqqqq\" in {what}; expected one of: ");
        let line =
            shown.lines().find_map(|l| l.split_once(&list)).unwrap_or_else(|| panic!("{what}: {shown}"));
        for key in line.1.split(", ") {
            let written = [format!("`{key}`"), format!("[{key}"), format!("{key} = ")];
            assert!(written.iter().any(|w| REFERENCE.contains(w)), "{key} of {what} is not in the reference");
            known += 1;
        }
    }
    assert!(known > 60, "{known} keys");
}
