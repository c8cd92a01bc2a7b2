//! Congestion controls with parameters, congestion controls of a file, and flows of several streams.

use scenario::{Cc, CcMistake, CcValue, FlowKind, Scenario, ScenarioFile};

/// The text of a scenario whose flow has these lines.
fn text(flow: &str) -> String {
    format!(
        r#"duration = "1s"
[hosts]
h1.address = "10.0.0.1/24"
h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
{flow}
"#
    )
}

fn load(path: &str) -> Result<String, String> {
    match path {
        "my.bpf.c" => Ok("/* \"mine\" \\ */\nint x;\n".into()),
        _ => Err("there is none".into()),
    }
}

fn parse(flow: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse_with("f.toml", &text(flow), &load).map_err(|e| e.to_string())
}

fn ccs(scenario: &Scenario) -> Vec<Option<Cc>> {
    let tcp = scenario.flows.iter().map(|f| match &f.kind {
        FlowKind::Tcp(tcp) => tcp.cc.clone(),
        _ => None,
    });
    tcp.collect()
}

fn cc(file: &ScenarioFile, variant: Option<&str>, sets: &[(&str, &str)]) -> Cc {
    let sets: Vec<(String, String)> = sets.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let scenario = file.resolve_with(variant, &sets, &load).unwrap_or_else(|e| panic!("{e}"));
    ccs(&scenario).remove(0).unwrap()
}

#[test]
fn parameters_are_whole_decimal_or_boolean() {
    let file = parse(r#"cc = { name = "griddt", a = 7, backoff = 0.5, by_mtu = true }"#).unwrap();
    let Cc::Own { name, set } = cc(&file, None, &[]) else { panic!("not ours") };
    assert_eq!(name, "griddt");
    assert_eq!(set["a"], CcValue::Integer(7));
    assert_eq!(set["backoff"], CcValue::Decimal(0.5));
    assert_eq!(set["by_mtu"], CcValue::Boolean(true));
    let long = parse(r#"cc = { name = "griddt", set = { a = 7, backoff = 0.5, by_mtu = true } }"#).unwrap();
    assert_eq!(cc(&long, None, &[]), cc(&file, None, &[]));
}

#[test]
fn a_record_contains_the_text_of_the_file() {
    let file = parse(r#"cc = { file = "my.bpf.c", name = "second", set = { beta = 819 } }"#).unwrap();
    let scenario = file.resolve(None, &[]).unwrap();
    let Some(Cc::File { path, text, name, set }) = &ccs(&scenario)[0] else { panic!("no file") };
    assert_eq!((path.as_str(), name.as_deref()), ("my.bpf.c", Some("second")));
    assert_eq!((&**text, set["beta"]), (load("my.bpf.c").unwrap().as_str(), CcValue::Integer(819)));
    // Parses without access to the file.
    let printed = scenario.to_toml();
    let again = ScenarioFile::parse("f.toml", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again.resolve(None, &[]).unwrap(), scenario);
}

#[test]
fn a_files_text_is_printed_line_by_line() {
    let file = parse(r#"cc = { file = "my.bpf.c", set = { beta = 819 } }"#).unwrap();
    let mut scenario = file.resolve(None, &[]).unwrap();
    let texts = [
        "",
        "\n",
        "\"",
        "a\"\"",
        "\"\"\"",
        "\"\"\"\"\"",
        "\\\"",
        "\\",
        "\n\"\"\"\n",
        "\r\n",
        "\tx\u{7f}\u{1}\u{85}",
    ];
    for odd in texts {
        let scenario::FlowKind::Tcp(tcp) = &mut scenario.flows[0].kind else { panic!("no tcp") };
        let Some(Cc::File { text, .. }) = &mut tcp.cc else { panic!("no file") };
        *text = odd.into();
        let printed = scenario.to_toml();
        let again = ScenarioFile::parse("f.toml", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(again.resolve(None, &[]).unwrap(), scenario, "{printed}");
    }
    let printed = file.resolve(None, &[]).unwrap().to_toml();
    assert!(printed.contains("\nint x;\n"), "{printed}");
}

#[test]
fn printed_scenarios_parse_to_the_same() {
    for flow in [
        r#"cc = "cubic""#,
        r#"cc = { name = "cubic" }"#,
        r#"cc = { name = "griddt", a = -7, backoff = 1e-9, huge = 1e300, one = 1.0, set = { on = false } }"#,
        "streams = 3",
    ] {
        let scenario = parse(flow).unwrap().resolve(None, &[]).unwrap();
        let printed = scenario.to_toml();
        let again = ScenarioFile::parse("f.toml", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(again.resolve(None, &[]).unwrap(), scenario, "{printed}");
    }
}

#[test]
fn layers_change_a_parameter_or_the_whole_algorithm() {
    let variants = "[[variants]]\nname = \"more\"\nflows.bulk.cc.a = 9\n\
                    [[variants]]\nname = \"other\"\nflows.bulk.cc = { name = \"cubic\" }\n\
                    [[variants]]\nname = \"file\"\nflows.bulk.cc = { file = \"my.bpf.c\" }\n\
                    [[variants]]\nname = \"plain\"\nflows.bulk.cc = \"reno\"";
    let file = parse(&format!("cc = {{ name = \"griddt\", a = 7, m = 2 }}\n{variants}")).unwrap();
    let set = |cc: &Cc| cc.set().iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
    let more = cc(&file, Some("more"), &[]);
    assert_eq!((more.name(), set(&more)), ("griddt", "a=9 m=2".into()));
    let other = cc(&file, Some("other"), &[]);
    assert_eq!((other.name(), set(&other)), ("cubic", String::new()));
    assert!(matches!(cc(&file, Some("file"), &[]), Cc::File { name: None, .. }));
    assert_eq!(cc(&file, Some("plain"), &[]), Cc::Named("reno".into()));
    // From the command line, also if the flow has only a name.
    let over = cc(&file, Some("plain"), &[("flows.bulk.cc.a", "3")]);
    assert_eq!((over.name(), set(&over)), ("reno", "a=3".into()));
    let whole = cc(&file, None, &[("flows.bulk.cc", r#"{ file = "my.bpf.c", set = { beta = 1 } }"#)]);
    assert_eq!((whole.name(), set(&whole)), ("my", "beta=1".into()));
    let deeper = cc(&file, Some("file"), &[("flows.bulk.cc.set.beta", "0.5")]);
    assert_eq!(set(&deeper), "beta=0.5");
}

#[test]
fn mistakes_have_their_position() {
    for (flow, wrong) in [
        ("cc = { a = 7 }", "f.toml:11:6: this cc has no algorithm; write for example cc = \"cubic\""),
        ("cc = { name = 7 }", "f.toml:11:15: \"name\" is a string, not an integer"),
        (r#"cc = { name = "a b" }"#, "f.toml:11:15: \"a b\" cannot name a congestion control"),
        (
            r#"cc = { name = "x", a = "7" }"#,
            "f.toml:11:24: the parameter \"a\" is a number or a boolean, not a string",
        ),
        (r#"cc = { name = "x", a = nan }"#, "f.toml:11:24: \"a\" cannot be NaN"),
        (r#"cc = { name = "x", a-b = 7 }"#, "f.toml:11:20: \"a-b\" cannot name a parameter"),
        (
            r#"cc = { name = "x", a = 9223372036854775808 }"#,
            "f.toml:11:24: \"a\" cannot be 9223372036854775808",
        ),
        (r#"cc = { name = "x", a = 1, set = { a = 2 } }"#, "f.toml:11:35: \"a\" is set twice"),
        (r#"cc = { name = "x", set = 2 }"#, "f.toml:11:26: \"set\" is a table of parameters, not an integer"),
        (r#"cc = { name = "x", text = "y" }"#, "f.toml:11:20: \"text\" needs \"file\""),
        (r#"cc = { file = "no.c" }"#, "f.toml:11:15: cc: cannot use \"no.c\": there is none"),
        (r#"cc = { file = "../my.bpf.c" }"#, "only files in the scenario's folder and its subfolders"),
        (r#"cc = { file = 1 }"#, "f.toml:11:15: \"file\" is a string, not an integer"),
        (
            r#"cc = { file = "my.bpf.c", beta = 1 }"#,
            "f.toml:11:27: unknown key \"beta\" in a cc of a file; parameters of a file are written as set = { beta = .. }",
        ),
        (
            r#"cc = { file = "my.bpf.c", set = 1 }"#,
            "f.toml:11:33: \"set\" is a table of parameters, not an integer",
        ),
        (
            "streams = 0",
            "f.toml:11:11: \"streams\" is not a number of streams; write a whole number from 1 to 1000",
        ),
        ("streams = \"4\"", "f.toml:11:11: \"streams\" is not a number of streams"),
        ("kind = \"ping\"\nstreams = 2", "f.toml:12:1: unknown key \"streams\" in a ping flow"),
    ] {
        let error = parse(flow).expect_err(flow);
        assert!(error.contains(wrong), "{flow}\n{error}");
    }
}

#[test]
fn mistakes_found_by_callers_have_their_position() {
    let file = parse(
        "cc = { name = \"griddt\", b = 7 }\nstreams = 2\n[[variants]]\nname = \"v\"\nflows.bulk.cc.c = 8\n\
         [[variants]]\nname = \"file\"\nflows.bulk.cc = { file = \"my.bpf.c\", set = { d = 1 } }",
    )
    .unwrap();
    let mistake = |flow: &str, parameter: Option<&str>| CcMistake {
        flow: flow.into(),
        parameter: parameter.map(Into::into),
        message: "wrong".into(),
        help: "right".into(),
    };
    let shown = |variant, sets: &[(String, String)], mistake: CcMistake| {
        file.cc_error(variant, sets, &[mistake]).unwrap().to_string()
    };
    assert!(file.cc_error(None, &[], &[]).is_none());
    assert_eq!(shown(None, &[], mistake("bulk-1", Some("b"))), "f.toml:11:29: wrong; right");
    assert_eq!(shown(None, &[], mistake("bulk-2", None)), "f.toml:11:6: wrong; right");
    assert_eq!(
        shown(Some("v"), &[], mistake("bulk-1", Some("c"))),
        "f.toml:15:19: variant \"v\": wrong; right"
    );
    assert!(shown(Some("file"), &[], mistake("bulk-1", Some("d"))).starts_with("f.toml:18:"));
    let sets = [("flows.bulk.cc.z".into(), "1".into())];
    assert_eq!(shown(None, &sets, mistake("bulk-1", Some("z"))), "--set flows.bulk.cc.z=1: wrong; right");
}

#[test]
fn streams_are_separate_flows() {
    let file =
        parse("cc = \"reno\"\nstreams = 3\n[[variants]]\nname = \"one\"\nflows.bulk.streams = 1").unwrap();
    let names = |variant| -> Vec<String> {
        file.resolve(variant, &[]).unwrap().flows.into_iter().map(|f| f.name).collect()
    };
    assert_eq!(names(None), ["bulk-1", "bulk-2", "bulk-3"]);
    assert_eq!(names(Some("one")), ["bulk"]);
    assert!(ccs(&file.resolve(None, &[]).unwrap()).iter().all(|cc| *cc == Some(Cc::Named("reno".into()))));
    let clash = parse("streams = 2\n[[flows]]\nname = \"bulk-1\"\nfrom = \"h1\"\nto = \"h2\"").unwrap_err();
    assert!(clash.contains("two flows are called \"bulk-1\""), "{clash}");
}
