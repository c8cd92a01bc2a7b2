//! Snapshots of the text tables of synthetic runs.

use crate::synthetic;
use view::{
    compare,
    table::{self, RunColumns},
};

fn runs() -> Vec<schema::RunSummary> {
    [("default", 10.6e6), ("tuned", 80e6)].map(|(name, window)| synthetic::run(name, 5, window).run).to_vec()
}

#[test]
fn results() {
    insta::assert_snapshot!(table::results(&runs(), None));
    assert_eq!(table::results(&[], None), "");
}

#[test]
fn explanations() {
    let mut runs = runs();
    assert_eq!(table::explanations(&[]), "");
    let flow = &mut runs[0].flows[0];
    flow.evidence = vec!["the window was full".into()];
    let fix = |host: &str| schema::Fix {
        host: host.into(),
        command: format!("sysctl -w a.b=\"{host} 2 3\""),
        reason: "3 is twice 1.5".into(),
    };
    flow.fixes = vec![fix("h1"), fix("h2")];
    flow.remedy = Some("not printed beside commands".into());
    insta::assert_snapshot!(table::explanations(&runs));
    runs[0].flows = vec![runs[0].flows[0].clone(); 9];
    let text = table::explanations(&runs[..1]);
    assert!(text.ends_with("\n3 more flows: longfat show RUN\n"), "{text}");
}

#[test]
fn udp_flows_have_a_separate_table() {
    let mut runs = runs();
    assert_eq!(table::datagrams(&runs, None), "");
    runs[1].flows.push(schema::FlowSummary {
        name: "calls".into(),
        kind: schema::FlowKind::Udp,
        goodput_bps: Some(957e6),
        datagrams_sent: Some(1_000),
        datagrams_lost: Some(43),
        loss_share: Some(0.043),
        mean_owd_us: Some(20_000.0),
        ..schema::FlowSummary::default()
    });
    let text = table::datagrams(&runs, None);
    let line = text.lines().nth(1).unwrap();
    for figure in ["tuned", "calls", "957 Mb/s", "1,000", "43", "4.3 %", "20.00 ms"] {
        assert!(line.contains(figure), "{figure} in {text}");
    }
}

#[test]
fn published() {
    let loaded = [synthetic::run("default", 1, 10.6e6)];
    insta::assert_snapshot!(table::published(&synthetic::summary_of(&loaded).published, None));
    assert_eq!(table::published(&[], None), "");
}

#[test]
fn comparison() {
    let runs = runs();
    insta::assert_snapshot!(table::compare(&compare(&runs[0], &runs[1]), None));
}

#[test]
fn shown_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(table::runs(&record::list(dir.path()).unwrap(), RunColumns::Short, None), "no runs yet\n");
    for (name, window) in [("default", 10.6e6), ("tuned", 80e6)] {
        let loaded = [synthetic::run(name, 5, window)];
        let summary = synthetic::summary_of(&loaded);
        let id = &loaded[0].run.id;
        let writer = record::Writer::create(dir.path(), "lab8", id, "", &summary).unwrap();
        writer.finish(&summary, &loaded[0].flows, &loaded[0].links, &loaded[0].events).unwrap();
    }
    let run = record::find(dir.path(), "last").unwrap();
    let shown = table::show(&run, None).replace(&dir.path().display().to_string(), "RUNS");
    insta::assert_snapshot!(shown);
    let broken = dir.path().join("lab8/20261121T031500Z-broken");
    std::fs::create_dir(&broken).unwrap();
    let listed = table::runs(&record::list(dir.path()).unwrap(), RunColumns::Short, None)
        .replace(&dir.path().display().to_string(), "RUNS");
    insta::assert_snapshot!(listed);
    let loaded = view::LoadedRun::load(&run).unwrap();
    assert_eq!(loaded.flows.len(), synthetic::run("tuned", 5, 80e6).flows.len());
}

#[test]
fn names_cannot_control_the_terminal() {
    let mut runs = runs();
    runs[0].flows[0].name = "\u{1b}[31mred\u{7}".into();
    runs[0].flows[0].evidence = vec!["\u{1b}[31mred".into()];
    assert!(!table::results(&runs, None).contains(['\u{1b}', '\u{7}']));
    assert!(!table::explanations(&runs).contains(['\u{1b}', '\u{7}']));
}

#[test]
fn narrow_terminals_get_fewer_columns_and_no_wrapped_lines() {
    let mut runs = runs();
    runs[1].flows[0].verdict_also = Some(schema::Cause::SendBuffer);
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let head = |width| table::results(&runs, width).lines().next().unwrap().to_owned();
    assert!(head(None).contains("STEADY") && head(None).contains("99 %"));
    for width in [80, 50] {
        let text = table::results(&runs, Some(width));
        assert!(longest(&text) <= width, "{width}: {text}");
        assert!(head(Some(width)).contains("GOODPUT") && head(Some(width)).contains("MEDIAN"), "{text}");
    }
    let compared = table::compare(&compare(&runs[0], &runs[1]), Some(50));
    assert!(compared.contains("B limited by: ") && longest(&compared) <= 60, "{compared}");
    let dir = tempfile::tempdir().unwrap();
    for (name, field) in [("default", "links.a-b.forward.queue"), ("tuned", "flows.bulk.send_buffer")] {
        let loaded = [synthetic::run(name, 1, 10.6e6)];
        let mut summary = synthetic::summary_of(&loaded);
        summary.runs[0].sweep = [(field.to_owned(), "100p".to_owned())].into();
        let id = format!("20261123T222341Z-sim-{name}");
        record::Writer::create(dir.path(), "path-50mbit-20ms", &id, "", &summary)
            .unwrap()
            .finish(&summary, &[], &[], &[])
            .unwrap();
    }
    let entries = record::list(dir.path()).unwrap();
    let listed = |width| table::runs(&entries, RunColumns::Short, width);
    assert!(listed(None).contains("links.a-b.forward.queue=100p"));
    for width in [120, 80, 60, 50, 30] {
        let text = listed(Some(width));
        assert!(longest(&text) <= width, "{width}: {text}");
        assert!(text.contains("20261123T222341Z-sim-tuned"), "ids stay whole: {text}");
    }
    assert!(listed(Some(80)).contains(" queue=100p") && listed(Some(80)).contains("GOODPUT"));
    // The reason why one record cannot be read does not displace the columns of the others.
    let damaged = dir.path().join("path-50mbit-20ms/20261123T222342Z-sim-damaged");
    std::fs::create_dir_all(&damaged).unwrap();
    std::fs::write(damaged.join("summary.json"), "{").unwrap();
    let entries = record::list(dir.path()).unwrap();
    let text = table::runs(&entries, RunColumns::Short, Some(90));
    assert!(text.contains("unreadable") && text.contains("GOODPUT") && longest(&text) <= 90, "{text}");
    let whole = table::runs(&entries, RunColumns::Short, None);
    assert!(whole.contains("summary.json"), "{whole}");
}
