//! Any run as an iperf3 report, as its client would have printed it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use iperf3::report::{Amount, Connection, Cpu, Direction, End, Interval, Report, Role, Start, TestSpec};
use record::Run;
use scenario::ScenarioFile;
use schema::{FlowKind, FlowSummary};
use units::{Bytes, Time};

use crate::{Error, Result, exported_stream::Stream};

/// iperf3's default port, for runs of scenarios.
const IPERF3_PORT: u16 = 5201;

/// The report of these flows of a run; of all if none is named.
///
/// # Errors
/// If there is no such flow, or the interval does not fit.
pub fn report(run: &Run, names: &[String], interval: Time) -> Result<Report> {
    let summary = run.run();
    let flows = select_flows(&summary.flows, names)?;
    let rows = run.flows()?;
    let duration_s = summary.duration_s;
    let (interval_s, count) = intervals(duration_s, interval)?;
    let first = flows[0];
    let forward = |flow: &FlowSummary| !(flow.from == first.to && flow.to == first.from);
    let mut streams: Vec<Stream<'_>> =
        flows.iter().map(|flow| Stream::of(flow, forward(flow), &rows, duration_s)).collect();
    // iperf3's order and numbers, which skip 2.
    streams.sort_by_key(|stream| !stream.forward);
    streams.iter_mut().enumerate().for_each(|(i, one)| one.id = if i == 0 { 1 } else { i as u32 + 2 });
    let bounds = |i: usize| (i as f64 * interval_s, ((i + 1) as f64 * interval_s).min(duration_s));
    let intervals = (0..count).map(|i| Interval {
        start_s: bounds(i).0,
        end_s: bounds(i).1,
        streams: streams.iter().map(|stream| stream.interval(bounds(i))).collect(),
    });
    Ok(Report {
        intervals: intervals.collect(),
        start: Some(start(run, &streams, interval.to_duration())),
        end: Some(End {
            streams: streams.iter().map(Stream::end).collect(),
            cpu_local: Cpu::default(),
            cpu_remote: Cpu::default(),
            sender_congestion: first.cc.clone(),
            receiver_congestion: None,
            file_bytes: None,
            server_output: None,
        }),
        latency: None,
        error: run.partial.then(|| "the run ended early".into()),
    })
}

/// Maximum number of intervals of a document.
const MAX_INTERVALS: f64 = 1e6;

fn intervals(duration_s: f64, interval: Time) -> Result<(f64, usize)> {
    let seconds = interval.as_secs_f64();
    let count = (duration_s / seconds).ceil();
    if seconds <= 0.0 || !(0.0..=MAX_INTERVALS).contains(&count) {
        return Err(Error::BadInput(format!(
            "intervals of {interval} divide {duration_s} s into more than {MAX_INTERVALS} rows"
        )));
    }
    Ok((seconds, count as usize))
}

/// The named flows, which must have the same protocol, TCP or UDP.
fn select_flows<'a>(flows: &'a [FlowSummary], names: &[String]) -> Result<Vec<&'a FlowSummary>> {
    let bad = |why: String| Err(Error::BadInput(why));
    let known = || flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| !flows.iter().any(|flow| flow.name == **name)) {
        return bad(format!("there is no flow {name:?}; the flows are {}", known()));
    }
    let chosen: Vec<&FlowSummary> = match names.is_empty() {
        true => flows.iter().filter(|flow| matches!(flow.kind, FlowKind::Tcp | FlowKind::Udp)).collect(),
        false => flows.iter().filter(|flow| names.contains(&flow.name)).collect(),
    };
    let Some(first) = chosen.first() else { return bad("the run has neither TCP nor UDP flows".into()) };
    if let Some(other) = chosen
        .iter()
        .find(|flow| flow.kind != first.kind || !matches!(flow.kind, FlowKind::Tcp | FlowKind::Udp))
    {
        return bad(format!(
            "an iperf3 test has only TCP or only UDP, but {} is {} and {} is {}; select flows with --flow: {}",
            first.name,
            first.kind,
            other.name,
            other.kind,
            known()
        ));
    }
    Ok(chosen)
}

fn start(run: &Run, streams: &[Stream<'_>], interval: Duration) -> Start {
    let summary = run.run();
    let first = streams[0].flow;
    let address = addresses(run);
    let reverse = streams.iter().filter(|stream| !stream.forward).count();
    let duration = Duration::try_from_secs_f64(summary.duration_s).unwrap_or_default();
    let time = summary.started.parse::<jiff::Timestamp>().map(SystemTime::from);
    Start {
        role: Role::Client,
        peer: address(&first.to),
        port: IPERF3_PORT,
        peer_name: first.to.clone(),
        version: format!("longfat {}", env!("CARGO_PKG_VERSION")),
        system_info: format!("Linux {} {}", first.from, run.summary.host.kernel),
        time: time.unwrap_or(SystemTime::UNIX_EPOCH),
        cookie: String::new(),
        mss: first.mss_bytes.and_then(|mss| u32::try_from(mss).ok()).unwrap_or(0),
        sndbuf_actual: 0,
        rcvbuf_actual: 0,
        spec: TestSpec {
            direction: if reverse > 0 { Direction::Both } else { Direction::Forward },
            streams: (streams.len() - reverse) as u32,
            block: Bytes(0),
            interval,
            title: Some(run.summary.title.clone()).filter(|title| !title.is_empty()),
            ..TestSpec::new(streams[0].protocol(), Amount::Time(duration))
        },
        connections: streams
            .iter()
            .map(|stream| {
                let (near, far) = match stream.forward {
                    true => (&stream.flow.from, &stream.flow.to),
                    false => (&stream.flow.to, &stream.flow.from),
                };
                Connection {
                    id: stream.id,
                    sender: stream.forward,
                    local: SocketAddr::new(address(near), 0),
                    remote: SocketAddr::new(address(far), IPERF3_PORT),
                }
            })
            .collect(),
    }
}

/// The addresses of the scenario's hosts; 0.0.0.0 if the scenario cannot be read.
fn addresses(run: &Run) -> impl Fn(&str) -> IpAddr {
    let text = run.scenario_toml().unwrap_or_default();
    let scenario = ScenarioFile::parse("scenario.toml", &text).and_then(|file| file.resolve(None, &[])).ok();
    move |host: &str| {
        let known = scenario.as_ref().and_then(|scenario| scenario.host(host));
        known.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |host| host.address())
    }
}
