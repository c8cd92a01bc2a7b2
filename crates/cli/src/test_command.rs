//! `longfat test`: a test with another host, told as it goes, kept as a record, and explained.

use std::path::Path;

use measurement::{
    latency,
    test::{self, Recording},
};
use perf::{
    iperf3::{self, ClientOptions, Tested},
    iperf3_json::{self, Event},
    report::Report,
};
use serde_json::{Value, json};

use crate::{
    cc_command,
    exit::Exit,
    interrupt,
    output::{self, Finish},
    test_args::TestArgs,
    test_teller::{Form, Teller},
    test_text,
};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.test/1";

/// Runs the test.
pub fn run(args: &TestArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let form = Form::of(args, json)?;
    let _pidfile = args.unattended.apply(matches!(form, Form::Text(_)))?;
    let mut options = args.options()?;
    // The kernel forgets it when this goes.
    let _registration = congestion_control(args, &mut options)?;
    let stop = interrupt::flag()?;
    output::queue(Finish::UnlessStopped(stop.clone()))?;
    let recording = (!args.no_record).then(|| Recording::new(runs_dir, &options));
    let mut teller = Teller::new(form, args.sample, args.is_auto(), recording);
    let tested = iperf3::test(&options, &stop, &mut teller);
    let Tested { report, error, peer_samples, busy, peer_busy, .. } = tested;
    let ends = test::Ends { busy, peer_busy };
    let seen = teller.finish();
    let kept = test::complete_record(seen, peer_samples, &options, &report, ends)?;
    match form {
        Form::Text(format) => {
            if let (Some(start), Some(end)) = (&report.start, &report.end) {
                output::text(&iperf3_json::end_text(start, end, format))?;
                tell_server_output(&report)?;
            }
            if let Some(latency) = &report.latency {
                output::text(&format!("\n{}", latency::text(latency)))?;
            }
            if let Some(kept) = &kept {
                output::text(&test_text::text(kept))?;
            }
        }
        Form::Iperf3Json => output::json(&iperf3_json::to_json(&report))?,
        Form::JsonStream => {
            for event in ending(&report) {
                output::text(&iperf3_json::event_line(event))?;
            }
        }
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

/// Where the kernel has not the congestion control and longfat has, it is registered for the time of the test.
fn congestion_control(
    args: &TestArgs,
    options: &mut ClientOptions,
) -> anyhow::Result<Option<cc::kernel::Registration>> {
    let Some(name) = args.congestion() else { return Ok(None) };
    if lab::has_congestion_control(name).map_err(experiment::Error::from)? {
        return Ok(None);
    }
    let Some(source) = cc::Source::built_in(name) else {
        return Err(Exit::Missing(format!(
            "neither this kernel nor longfat has a congestion control \"{name}\"; `longfat cc list` tells what there is"
        ))
        .into());
    };
    let registration =
        cc::kernel::load(&source, &Default::default(), None).map_err(|e| cc_command::failure(&e))?;
    options.congestion = Some(registration.name().to_string());
    Ok(Some(registration))
}

fn tell_server_output(report: &Report) -> anyhow::Result<()> {
    use perf::report::ServerOutput;
    match report.end.as_ref().and_then(|end| end.server_output.as_ref()) {
        Some(ServerOutput::Text(text)) => output::text(&format!("\nServer output:\n{text}")),
        Some(ServerOutput::Json(value)) => output::text(&format!("\nServer JSON output:\n{value:#}")),
        None => Ok(()),
    }
}

/// The events that come when all is over.
fn ending(report: &Report) -> Vec<Event<'_>> {
    iperf3_json::events(report)
        .into_iter()
        .filter(|event| !matches!(event, Event::Start(_) | Event::Interval(..)))
        .collect()
}

/// longfat's own document: the flows as in a record's summary, and what both ends counted.
fn document(report: &Report, kept: Option<&test::RecordedTest>) -> Value {
    let account = |account: &perf::report::Account| {
        let mut value = json!({
            "bytes": account.bytes,
            "duration_s": account.end_s - account.start_s,
            "goodput_bps": rate(account.bytes, account.end_s - account.start_s),
        });
        if let Some(udp) = &account.udp {
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
                "sent": account(&stream.sent),
                "received": account(&stream.received),
                "retransmitted_segs": stream.tcp.and_then(|tcp| tcp.retransmits),
            })
        })
        .collect();
    let cpu = |cpu: &perf::report::Cpu| json!({ "total": cpu.total, "user": cpu.user, "system": cpu.system });
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

fn rate(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds)
}
