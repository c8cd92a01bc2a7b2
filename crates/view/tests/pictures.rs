//! Plots and reports of synthetic runs: required and forbidden content, and a snapshot of one plot.

use crate::synthetic;
use schema::{EngineName, Event, EventKind, FlowKind, FlowSample, Reliability, Summary};
use serde::Deserialize;
use serde_json::Value;
use view::{Error, LoadedRun, PlotOptions, Reference, ReportExtra, plot, report};

/// Well-formed as XML: every element that opens closes, in order, and no `&` or `<` stands alone.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        assert!(
            !rest[..at].contains('>') || rest[..at].contains('{'),
            "stray > in {:?}",
            &rest[..at.min(80)]
        );
        let end = at + rest[at..].find('>').expect("an element ends");
        let element = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = element.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !element.ends_with('/') {
            open.push(element.split([' ', '\n']).next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "no coordinate is lost");
}

fn texts(svg: &str) -> String {
    let pieces = svg.split("<text").skip(1).filter_map(|t| t.split_once('>')).map(|(_, t)| t);
    pieces.filter_map(|t| t.split("</text>").next()).collect::<Vec<_>>().join("\n")
}

/// The points of the longest curve.
fn longest_path(svg: &str) -> usize {
    svg.split(" d=\"")
        .skip(1)
        .filter_map(|d| d.split('"').next())
        .map(|d| d.matches(['M', 'L']).count())
        .max()
        .unwrap_or(0)
}

#[test]
fn a_plot_has_titles_units_legend_limits_and_verdict() {
    let run = synthetic::run("default", 20, 10.6e6);
    let options = PlotOptions {
        title: Some("a < b".into()),
        references: vec![Reference { label: "published".into(), value_bps: 3e9, run: None }],
        ..PlotOptions::default()
    };
    let svg = plot(&[&run], &["goodput", "cwnd", "rtt", "queue"], &options).unwrap();
    assert_well_formed(&svg);
    let texts = texts(&svg);
    for expected in [
        "a &lt; b",
        "bulk",
        "ping",
        "s1-s2 forward",
        "Goodput (Gb/s)",
        "mean over 100 ms, samples in faint colour",
        "wire limit 9.56 Gb/s",
        "published 3.00 Gb/s",
        "limited by",
        "receive window",
        "Congestion window (MB)",
        "Round-trip time (ms)",
        "Queue (B)",
        "0 throughout",
        "Time (s)",
    ] {
        assert!(texts.contains(expected), "{expected:?} is missing in {texts}");
    }
    assert!(svg.contains("prefers-color-scheme:dark"));
}

#[test]
fn long_runs_are_drawn_with_few_points() {
    let run = synthetic::run("tuned", 600, 80e6);
    let svg = plot(&[&run], &["goodput", "cwnd", "srtt_us"], &PlotOptions::default()).unwrap();
    assert_well_formed(&svg);
    assert!((1000..=1500).contains(&longest_path(&svg)), "{}", longest_path(&svg));
    assert!(texts(&svg).contains("mean over 2 s"), "{}", texts(&svg));
    let late = PlotOptions { span_s: Some((560.0, 600.0)), ..PlotOptions::default() };
    let svg = plot(&[&run], &["goodput", "cwnd", "srtt_us"], &late).unwrap();
    assert!((1000..=1500).contains(&longest_path(&svg)), "of a late span: {}", longest_path(&svg));
}

#[test]
fn colours_distinguish_runs_and_dash_patterns_flows() {
    let (a, b) = (synthetic::run("default", 5, 10.6e6), synthetic::run("tuned", 5, 80e6));
    let svg = plot(&[&a, &b], &["rtt"], &PlotOptions::default()).unwrap();
    assert_well_formed(&svg);
    assert!(svg.contains("class=\"s0 marks\"") && svg.contains("class=\"s1 marks\""));
    let texts = texts(&svg);
    assert!(
        texts.starts_with("default\ntuned\n") && texts.contains("bulk") && texts.contains("ping"),
        "{texts}"
    );
}

#[test]
fn a_large_receive_window_does_not_extend_the_axis_of_the_congestion_window() {
    let mut run = synthetic::run("default", 1, 10.6e6);
    run.flows.retain(|row| row.flow == "bulk");
    for row in &mut run.flows {
        (row.snd_mss_bytes, row.snd_cwnd_segs, row.snd_wnd_bytes) = (Some(1000), Some(100), Some(190_000));
        row.snd_ssthresh_segs = None;
    }
    let near = texts(&plot(&[&run], &["cwnd"], &PlotOptions::default()).unwrap());
    assert!(near.contains("\n150\n") && !near.contains("above the axis"), "{near}");
    run.flows[50].snd_wnd_bytes = Some(1_200_000);
    let clipped = texts(&plot(&[&run], &["cwnd"], &PlotOptions::default()).unwrap());
    assert!(
        !clipped.contains("\n150\n") && clipped.contains("receive window above the axis, up to 1.20 MB"),
        "{clipped}"
    );
}

#[test]
fn legends_name_differing_congestion_controls() {
    let (mut a, mut b) = (synthetic::run("default", 1, 10.6e6), synthetic::run("tuned", 1, 80e6));
    for (run, from) in [(&mut a, "kernel"), (&mut b, "longfat")] {
        run.run.flows.retain(|flow| flow.kind == FlowKind::Tcp);
        run.run.flows[0].cc_from = Some(from.into());
    }
    let both = texts(&plot(&[&a, &b], &["cwnd"], &PlotOptions::default()).unwrap());
    assert!(both.starts_with("default: cubic (kernel)\ntuned: cubic (longfat)\n"), "{both}");
    let comparison = view::compare(&a.run, &b.run);
    assert_eq!(
        (comparison.flows[0].cc_from_a.as_deref(), comparison.flows[0].cc_b.as_deref()),
        (Some("kernel"), Some("cubic"))
    );
    b.run.flows[0].cc_set.insert("beta".into(), schema::Setting::Decimal(0.5));
    let table = view::table::compare(&view::compare(&a.run, &b.run), None);
    let row = table.lines().find(|line| line.starts_with("congestion control")).unwrap();
    assert!(row.contains("cubic  cubic beta=0.5"), "{table}");
}

#[test]
fn a_missing_value_interrupts_the_curve() {
    let mut run = synthetic::run("default", 1, 10.6e6);
    run.flows.retain(|row| row.flow == "bulk");
    for row in &mut run.flows[40..60] {
        row.srtt_us = None;
    }
    let svg = plot(&[&run], &["rtt"], &PlotOptions::default()).unwrap();
    let curve = svg.split("<path class=\"s0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(curve.matches('M').count(), 2, "{curve}");
}

#[test]
fn missing_data_is_mentioned_and_unknown_metrics_are_refused() {
    let mut run = synthetic::run("default", 1, 10.6e6);
    run.links.clear();
    let svg = plot(&[&run], &["queue", "rcv_rtt_us"], &PlotOptions::default()).unwrap();
    assert_eq!(texts(&svg).matches("no samples in this record").count(), 2);
    assert!(matches!(plot(&[&run], &[], &PlotOptions::default()), Err(Error::NoMetric)));
    assert!(matches!(plot(&[&run], &["cwndd"], &PlotOptions::default()), Err(Error::UnknownMetric { .. })));
    assert_well_formed(&plot(&[], &["goodput"], &PlotOptions::default()).unwrap());
}

#[test]
fn extreme_values_can_be_drawn() {
    let mut run = synthetic::run("default", 1, 10.6e6);
    for (index, row) in run.flows.iter_mut().enumerate() {
        row.srtt_us = Some(if index % 2 == 0 { i64::MAX } else { i64::MIN });
        row.goodput_bps = Some(-1);
        row.time_us = if index % 3 == 0 { -5 } else { row.time_us };
    }
    let svg = plot(&[&run], &["rtt", "goodput", "snd_cwnd_segs"], &PlotOptions::default()).unwrap();
    assert_well_formed(&svg);
}

const SCRIPT: &str = "<script>alert('x')</script>";

/// The summary in which [`SCRIPT`] replaces every free text, except those in fields with `kept` names.
fn with_scripts(summary: &Summary, kept: &[&str]) -> Summary {
    fn find_texts(value: &Value, pointer: &str, found: &mut Vec<String>) {
        let mut within = |key: &str, value| find_texts(value, &format!("{pointer}/{key}"), found);
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| within(&at.to_string(), item))
            }
            Value::Object(members) => members.iter().for_each(|(name, member)| within(name, member)),
            Value::String(_) => found.push(pointer.to_owned()),
            _ => {}
        }
    }
    let mut document = serde_json::to_value(summary).unwrap();
    let mut pointers = Vec::new();
    find_texts(&document, "", &mut pointers);
    pointers.retain(|pointer| !kept.iter().any(|name| pointer.ends_with(&format!("/{name}"))));
    assert!(pointers.len() > 50, "the summary has all of its texts: {pointers:?}");
    for pointer in pointers {
        let text = document.pointer_mut(&pointer).unwrap();
        let before = std::mem::replace(text, SCRIPT.into());
        if Summary::deserialize(&document).is_err() {
            *document.pointer_mut(&pointer).unwrap() = before;
        }
    }
    Summary::deserialize(document).unwrap()
}

/// A summary in which every text and list of texts has a value.
fn summary_with_all_texts(run: &LoadedRun) -> Summary {
    let mut summary = synthetic::summary_of(std::slice::from_ref(run));
    let text = || Some("text".to_owned());
    let run = &mut summary.runs[0];
    (run.kernel, run.sysctl_defaults, run.file, run.record) = (text(), text(), text(), text());
    (run.set, run.sweep) =
        ([("<script>".into(), "1".into())].into(), [("<script>".into(), "1".into())].into());
    run.part_of = text();
    run.discarded = vec![schema::DiscardedRun { started: "then".into(), faults: vec!["text".into()] }];
    (run.quality.reliability, run.quality.notes) = (Reliability::Invalid, vec!["text".into()]);
    run.quality.faults = vec!["text".into()];
    for flow in &mut run.flows {
        (flow.cc, flow.cc_kernel_name, flow.cc_from, flow.remedy) = (text(), text(), text(), text());
        flow.cc_set = [("<script>".into(), schema::Setting::Integer(1))].into();
        flow.evidence = vec!["text".into()];
        flow.fixes = vec![schema::Fix { host: "h1".into(), command: "text".into(), reason: "text".into() }];
    }
    run.flows[1].fixes.clear();
    for result in &mut summary.published {
        (result.claim, result.contradiction, result.known_miss, result.why) =
            (text(), text(), text(), text());
        result.faults = vec!["text".into()];
        result.kernels = vec![schema::KernelFigure {
            kernel: "6.1.192".into(),
            figure: 1e9,
            verdict: schema::PublishedVerdict::Within,
        }];
        result.judged = vec![schema::EngineVerdict {
            engine: EngineName::Sim,
            kernel: None,
            figure: None,
            verdict: schema::PublishedVerdict::DoesNotApply,
            why: text(),
            experiment: text(),
        }];
    }
    summary
}

#[test]
fn every_text_from_a_record_is_escaped() {
    let mut run = synthetic::run("default", 1, 10.6e6);
    for row in &mut run.flows {
        row.flow = SCRIPT.into();
    }
    for row in &mut run.links {
        row.link = SCRIPT.into();
    }
    run.path = SCRIPT.into();
    let summary = summary_with_all_texts(&run);
    let extra = ReportExtra { created: Some(SCRIPT.into()), command: Some(SCRIPT.into()) };
    // Without the names of engines and kinds, parts of a report are omitted.
    for kept in [&["schema", "engine", "kind"][..], &["schema"]] {
        let summary = with_scripts(&summary, kept);
        (run.run, run.scenario, run.title) =
            (summary.runs[0].clone(), summary.scenario.clone(), summary.title.clone());
        let page = report(&summary, std::slice::from_ref(&run), &extra);
        let before = page.split("<script").next().unwrap();
        assert!(before.len() == page.len(), "after {:?}", before.lines().last());
        let scenario = view::scenario_section(&summary, std::slice::from_ref(&run));
        assert!(!scenario.contains("<script") && scenario.contains("&lt;script"));
        assert_well_formed(&plot(&[&run], &["goodput", "queue"], &PlotOptions::default()).unwrap());
    }
}

fn summary_and_runs() -> (Summary, [LoadedRun; 2]) {
    let runs = [synthetic::run("default", 5, 10.6e6), synthetic::run("tuned", 5, 80e6)];
    (synthetic::summary_of(&runs), runs)
}

#[test]
fn a_report_has_the_results_and_is_self_contained() {
    let (summary, runs) = summary_and_runs();
    let page = report(&summary, &runs, &ReportExtra::default());
    for expected in [
        "BDP and TCP buffer size &lt;Lab 8&gt;",
        "Linux 6.18.5, 2 CPUs",
        "Limited by <b>receive window</b>",
        "net.ipv4.tcp_rmem = 10240 87380 52428800 on h2",
        "L8-default",
        "3.35 Gb/s",
        "scaling_ratio",
        "class=\"chip differs\"",
        "class=\"chip within\">within",
        "class=\"chip within\">reliable",
        "The runs side by side",
        "runs/lab8/20261121T031500Z-lab-tuned",
        "read_parquet",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing");
    }
    assert_eq!(page.matches("<svg xmlns").count(), 3);
    assert!(!page.contains("Do not cite"));
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !outside.contains("http") && !outside.contains("src=") && !outside.contains("@import"),
        "opens offline"
    );
}

#[test]
fn a_report_warns_of_unreliable_runs_and_of_partial_ones() {
    let (mut summary, mut runs) = summary_and_runs();
    summary.runs[1].quality.notes = vec!["another lab ran".into()];
    summary.runs[1].quality.add_fault("late by 54 ms".into());
    runs[0].partial = true;
    let page = report(&summary, &runs, &ReportExtra::default());
    let warning = page.split("Do not cite the run tuned").nth(1).unwrap().split("</div>").next().unwrap();
    assert!(
        warning.contains("late by 54 ms") && !warning.contains("another lab"),
        "only the reasons: {warning}"
    );
    // Records of earlier versions have their reasons among the notes.
    summary.runs[1].quality.faults.clear();
    assert!(report(&summary, &runs, &ReportExtra::default()).contains("late by 54 ms</li><li>another lab"));
    assert!(page.contains("partial: the run was cut short") && page.contains("default (partial)"));
}

#[test]
fn a_report_of_the_model_alone_has_no_plots() {
    let (mut summary, _) = summary_and_runs();
    summary.runs.truncate(1);
    summary.runs[0].engine = EngineName::Model;
    let page = report(&summary, &[], &ReportExtra::default());
    assert!(!page.contains("<svg xmlns") && page.contains("Limited by <b>receive window</b>"));
}

#[test]
fn a_small_plot_has_not_changed() {
    let mut run = synthetic::run("default", 1, 10.6e6);
    run.flows = (0..=4)
        .map(|i| FlowSample {
            time_us: i * 250_000,
            flow: "bulk".into(),
            srtt_us: (i != 3).then_some(20_000 + 4_000 * i),
            ..FlowSample::default()
        })
        .collect();
    run.links.clear();
    let options =
        PlotOptions { title: Some("small".into()), width: 400, panel_height: 90, ..PlotOptions::default() };
    let svg = plot(&[&run], &["rtt"], &options).unwrap();
    let body = svg.split("</style>").nth(1).unwrap();
    insta::assert_snapshot!(body);
}

#[test]
fn stalls_are_bands_in_every_panel_over_time() {
    let mut run = synthetic::run("tuned", 20, 80e6);
    let stall = |time_us, value| Event { time_us, subject: "emulator".into(), kind: EventKind::Stall, value };
    run.events = vec![stall(5_000_000, 64_650), stall(5_000_100, 64_650), stall(9_000_000, 400)];
    let svg = plot(&[&run], &["goodput", "rtt"], &PlotOptions::default()).unwrap();
    assert_well_formed(&svg);
    assert_eq!(svg.matches("class=\"stall\"").count(), 2, "one in each panel, the short one in none");
    assert!(texts(&svg).contains("measurement stalled"));
    let against = view::plot_against(&[&run], &["goodput"], "rtt", &PlotOptions::default()).unwrap();
    assert!(!against.contains("class=\"stall\"") && !texts(&against).contains("stalled"));
}

#[test]
fn a_plot_against_a_metric_shows_the_requested_span() {
    let mut run = synthetic::run("tuned", 20, 80e6);
    let plot = |run: &LoadedRun, span_s| {
        let options = PlotOptions { span_s, ..PlotOptions::default() };
        view::plot_against(&[run], &["goodput"], "rtt", &options).unwrap()
    };
    let (span, settled) = (plot(&run, Some((4.0, 5.0))), plot(&run, None));
    assert!(texts(&span).contains("from 4 s to 5 s") && texts(&settled).contains("second half of each flow"));
    // Samples outside the span have no effect.
    for row in run.flows.iter_mut().filter(|row| !(4_000_000..=5_000_000).contains(&row.time_us)) {
        row.srtt_us = Some(900_000);
    }
    assert_eq!(plot(&run, Some((4.0, 5.0))), span);
    assert_ne!(plot(&run, None), settled);
}

#[test]
fn window_reductions_are_marked() {
    let mut run = synthetic::run("tuned", 20, 80e6);
    let event = |time_us, kind, value| Event { time_us, subject: "bulk".into(), kind, value };
    run.events = vec![
        event(5_000_000, EventKind::CaState, 3),
        event(5_000_900, EventKind::CaState, 3),
        event(7_000_000, EventKind::CaState, 0),
        event(9_000_000, EventKind::Rto, 1),
    ];
    let options = PlotOptions::default();
    let svg = plot(&[&run], &["cwnd"], &options).unwrap();
    assert_well_formed(&svg);
    let marks = |class: &str| svg.matches(&format!("class=\"s0 {class}\"")).count();
    assert_eq!((marks("event"), marks("event timeout")), (1, 1), "two within a few pixels are one");
    assert!(texts(&svg).contains("reduced") && texts(&svg).contains("timeout"), "{}", texts(&svg));
    let others = plot(&[&run], &["goodput", "rtt"], &options).unwrap();
    assert!(!others.contains("s0 event"));
}
