//! `longfat test`: a throughput test with another host, with progress, a record and a verdict.

pub mod args;
pub mod reporter;
pub mod text;
pub mod unattended;

use iperf3::{
    ClientOptions, TestOutcome,
    document::{self, Event},
    report::Report,
};
use measurement::{
    latency,
    test::{self, RecordedTest, Recording},
};
use record::RunsLocation;
use serde_json::{Value, json};

use self::{
    args::TestArgs,
    reporter::{Form, Reporter},
};
use crate::{
    commands,
    exit::Exit,
    interrupt,
    output::{self, Finish},
};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.test/1";

/// Runs the command.
pub fn run(args: &TestArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let form = Form::of(args, json)?;
    let _pidfile = args.unattended.apply(matches!(form, Form::Text(_)))?;
    let mut options = args.options()?;
    // The congestion control is unregistered when this is dropped.
    let _registration = congestion_control(args, &mut options)?;
    let stop = interrupt::flag()?;
    output::queue(Finish::UnlessStopped(stop.clone()))?;
    let runs_dir = (!args.no_record).then(|| runs.writable()).transpose()?;
    let recording = runs_dir.as_deref().map(|directory| Recording::new(directory, &options));
    let mut reporter = Reporter::new(form, args.sample, args.is_auto(), recording);
    let tested = match args.iperf2 {
        true => iperf2::test(&options, &stop, &mut reporter),
        false => iperf3::test(&options, &stop, &mut reporter),
    };
    let TestOutcome { report, error, peer_samples, busy, peer_busy, .. } = tested;
    let ends = test::Ends { busy, peer_busy };
    let seen = reporter.finish();
    let kept = test::complete_record(seen, peer_samples, &options, &report, ends)?;
    let kept =
        kept.map(|kept| RecordedTest { path: kept.path.map(|path| runs.name_of(&path).into()), ..kept });
    match form {
        Form::Text(format) => {
            if let (Some(start), Some(end)) = (&report.start, &report.end) {
                output::text(&document::end_text(start, end, format))?;
            }
            if let Some(latency) = &report.latency {
                output::text(&format!("\n{}", latency::text(latency)))?;
            }
            if let Some(kept) = &kept {
                output::prose(&text::text(kept))?;
            }
        }
        Form::Iperf3Json => output::json(&document::to_json(&report))?,
        Form::JsonStream => {
            for event in ending(&report) {
                output::text(&document::event_line(event))?;
            }
        }
        // Nothing was measured: the error is printed as its own document.
        Form::Json if error.is_some() && report.start.is_none() => {}
        Form::Json => output::json(&document(&report, kept.as_ref()))?,
    }
    match error {
        None => Ok(()),
        Some(iperf3::Error::Interrupted) => Err(Exit::Interrupted.into()),
        Some(error) => {
            Err(anyhow::Error::new(error).context(format!("the test with {} failed", options.host)))
        }
    }
}

/// Registers longfat's congestion control for the duration of the test if the kernel does not have it.
fn congestion_control(
    args: &TestArgs,
    options: &mut ClientOptions,
) -> anyhow::Result<Option<cc::kernel::Registration>> {
    let Some(name) = args.congestion() else { return Ok(None) };
    if lab::has_congestion_control(name).map_err(experiment::Error::from)? {
        return Ok(None);
    }
    let Some(source) = cc::Source::built_in(name) else {
        let near = schema::nearest_names(name, cc::Algorithm::all().iter().map(|own| own.name)).join(", ");
        return Err(Exit::Missing(format!(
            "neither this kernel nor longfat has a congestion control \"{name}\"; the nearest are {near} (`longfat cc list` shows all)"
        ))
        .into());
    };
    let registration =
        cc::kernel::load(&source, &Default::default(), None).map_err(|e| commands::cc::failure(&e))?;
    options.congestion = Some(registration.name().to_string());
    Ok(Some(registration))
}

/// The events at the end of a test.
fn ending(report: &Report) -> Vec<Event<'_>> {
    document::events(report)
        .into_iter()
        .filter(|event| !matches!(event, Event::Start(_) | Event::Interval(..)))
        .collect()
}

/// The document of `--json`: the flows as in the summary of a record, and the statistics of both ends.
fn document(report: &Report, kept: Option<&RecordedTest>) -> Value {
    let totals_json = |totals: &iperf3::report::StreamTotals| {
        let mut value = json!({
            "bytes": totals.bytes,
            "duration_s": totals.end_s - totals.start_s,
            "goodput_bps": totals.goodput_bps(),
        });
        if let Some(udp) = &totals.udp {
            value["packets"] = json!(udp.packets);
            value["lost"] = json!(udp.lost);
            value["out_of_order"] = json!(udp.out_of_order);
            value["jitter_us"] = json!(udp.jitter_s * 1e6);
        }
        value
    };
    let streams: Vec<Value> = report
        .end
        .iter()
        .flat_map(|end| &end.streams)
        .map(|stream| {
            json!({
                "flow": iperf3::flow_name(stream.id),
                "forward": stream.forward,
                "sent": totals_json(&stream.sent),
                "received": totals_json(&stream.received),
                "retransmitted_segs": stream.tcp.and_then(|tcp| tcp.retransmits),
            })
        })
        .collect();
    let cpu =
        |cpu: &iperf3::report::Cpu| json!({ "total": cpu.total, "user": cpu.user, "system": cpu.system });
    json!({
        "schema": SCHEMA,
        "peer": report.start.as_ref().map(|start| &start.peer_name),
        "port": report.start.as_ref().map(|start| start.port),
        "error": report.error,
        "sndbuf_actual_bytes": report.start.as_ref().map(|start| start.sndbuf_actual),
        "rcvbuf_actual_bytes": report.start.as_ref().map(|start| start.rcvbuf_actual),
        "streams": streams,
        "cpu_local_percent": report.end.as_ref().map(|end| cpu(&end.cpu_local)),
        "cpu_remote_percent": report.end.as_ref().map(|end| cpu(&end.cpu_remote)),
        "latency": report.latency.as_ref().map(latency::json),
        "flows": kept.map(|kept| &kept.run.flows),
        "steady": kept.and_then(|kept| kept.steady.as_ref()).map(test::steady_json),
        "notes": kept.map(|kept| &kept.run.quality.notes),
        "record": kept.and_then(|kept| kept.path.as_ref()),
    })
}
