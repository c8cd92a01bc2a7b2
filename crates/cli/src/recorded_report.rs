//! Any run as the report of a test: what iperf3 would have told of its flows, at the client.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use perf::report::{
    Account, Amount, Connection, Cpu, Datagrams, Direction, End, Interval, Protocol, Report, Role, Start,
    StreamEnd, StreamInterval, TcpState, TcpSummary, TestSpec,
};
use record::Run;
use scenario::ScenarioFile;
use schema::{FlowSample, FlowSummary};
use units::{Bytes, Time};

use crate::exit::Exit;

/// Of a scenario's hosts, the port that iperf3 listens on.
const PORT: u16 = 5201;
/// IPv4 and TCP with timestamps.
const HEADERS_BYTES: u64 = 52;

/// The report of these flows of a run (of all where none is named).
pub fn report(run: &Run, names: &[String], interval: Time) -> anyhow::Result<Report> {
    let summary = run.run();
    let flows = chosen(&summary.flows, names)?;
    let rows = run.flows()?;
    let duration_s = summary.duration_s;
    let (interval_s, count) = intervals(duration_s, interval)?;
    let first = flows[0];
    let forward = |flow: &FlowSummary| !(flow.from == first.to && flow.to == first.from);
    let mut streams: Vec<Stream<'_>> =
        flows.iter().map(|flow| Stream::of(flow, forward(flow), &rows, duration_s)).collect();
    // iperf3's own order; its numbers leave 2 out.
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
        start: Some(start(run, &streams, Duration::from_nanos(interval.0))),
        end: Some(End {
            streams: streams.iter().map(Stream::end).collect(),
            cpu_local: Cpu::default(),
            cpu_remote: Cpu::default(),
            sender_congestion: first.cc.clone(),
            receiver_congestion: None,
            server_output: None,
        }),
        error: run.partial.then(|| "the run was cut short".into()),
    })
}

/// The most intervals that one document has.
const MAX_INTERVALS: f64 = 1e6;

fn intervals(duration_s: f64, interval: Time) -> anyhow::Result<(f64, usize)> {
    let seconds = interval.as_secs_f64();
    let count = (duration_s / seconds).ceil();
    if seconds <= 0.0 || !(0.0..=MAX_INTERVALS).contains(&count) {
        let most = Exit::BadInput(format!(
            "an interval of {interval} makes more than {MAX_INTERVALS} of {duration_s} s"
        ));
        return Err(most.into());
    }
    Ok((seconds, count as usize))
}

/// The flows named, all of one protocol that iperf3 has.
fn chosen<'a>(flows: &'a [FlowSummary], names: &[String]) -> anyhow::Result<Vec<&'a FlowSummary>> {
    let bad = |why: String| Err(Exit::BadInput(why).into());
    let known = || flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| !flows.iter().any(|flow| flow.name == **name)) {
        return bad(format!("there is no flow {name:?}; there are {}", known()));
    }
    let chosen: Vec<&FlowSummary> = match names.is_empty() {
        true => flows.iter().filter(|flow| matches!(flow.kind.as_str(), "tcp" | "udp")).collect(),
        false => flows.iter().filter(|flow| names.contains(&flow.name)).collect(),
    };
    let Some(first) = chosen.first() else { return bad("the run has no TCP and no UDP flow".into()) };
    if let Some(other) =
        chosen.iter().find(|flow| flow.kind != first.kind || !matches!(flow.kind.as_str(), "tcp" | "udp"))
    {
        return bad(format!(
            "iperf3 has TCP or UDP in one test, and {} is {}, {} is {}; --flow chooses among {}",
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
        port: PORT,
        peer_name: first.to.clone(),
        version: format!("longfat {}", env!("CARGO_PKG_VERSION")),
        system_info: format!("Linux {} {}", first.from, run.summary.host.kernel),
        time: time.unwrap_or(SystemTime::UNIX_EPOCH),
        cookie: String::new(),
        mss: first.mss_bytes.and_then(|mss| u32::try_from(mss).ok()).unwrap_or(0),
        sndbuf_actual: 0,
        rcvbuf_actual: 0,
        spec: TestSpec {
            protocol: streams[0].protocol(),
            direction: if reverse > 0 { Direction::Both } else { Direction::Forward },
            streams: (streams.len() - reverse) as u32,
            amount: Amount::Time(duration),
            omit: Duration::ZERO,
            block: Bytes(0),
            interval,
            rate: None,
            burst: 0,
            fq_rate: None,
            window: None,
            mss: None,
            nodelay: false,
            congestion: None,
            tos: 0,
            flow_label: None,
            zerocopy: false,
            skip_rx_copy: false,
            dont_fragment: false,
            udp_counters_64bit: false,
            get_server_output: false,
            title: Some(run.summary.title.clone()).filter(|title| !title.is_empty()),
            extra_data: None,
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
                    remote: SocketAddr::new(address(far), PORT),
                }
            })
            .collect(),
    }
}

/// The addresses of the scenario's hosts; 0.0.0.0 where the scenario cannot be read any more.
fn addresses(run: &Run) -> impl Fn(&str) -> IpAddr {
    let text = run.scenario_toml().unwrap_or_default();
    let scenario = ScenarioFile::parse("scenario.toml", &text).and_then(|file| file.resolve(None, &[])).ok();
    move |host: &str| {
        let known = scenario.as_ref().and_then(|scenario| scenario.host(host));
        known.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |host| host.address())
    }
}

/// A flow as a stream, with its rows.
struct Stream<'a> {
    id: u32,
    flow: &'a FlowSummary,
    forward: bool,
    rows: Vec<&'a FlowSample>,
    /// Payload bytes received until each row's time, seconds.
    received: Vec<(f64, f64)>,
    duration_s: f64,
}

impl<'a> Stream<'a> {
    fn of(flow: &'a FlowSummary, forward: bool, rows: &'a [FlowSample], duration_s: f64) -> Self {
        let rows: Vec<&FlowSample> = rows.iter().filter(|row| row.flow == flow.name).collect();
        let (mut received, mut bytes, mut last_s) = (vec![(0.0, 0.0)], 0.0, 0.0);
        for row in &rows {
            let time_s = row.time_us as f64 * 1e-6;
            bytes += row.goodput_bps.unwrap_or(0) as f64 / 8.0 * (time_s - last_s);
            received.push((time_s, bytes));
            last_s = time_s;
        }
        Stream { id: 0, flow, forward, rows, received, duration_s }
    }

    fn protocol(&self) -> Protocol {
        if self.flow.kind == "udp" { Protocol::Udp } else { Protocol::Tcp }
    }

    /// Bytes received until a time, between two rows in proportion.
    fn received_at(&self, time_s: f64) -> f64 {
        let after = self.received.partition_point(|(at, _)| *at < time_s);
        let (Some(before), Some(next)) =
            (self.received.get(after.saturating_sub(1)), self.received.get(after))
        else {
            return self.received.last().map_or(0.0, |last| last.1);
        };
        let span_s = next.0 - before.0;
        if span_s > 0.0 { before.1 + (next.1 - before.1) * (time_s - before.0) / span_s } else { next.1 }
    }

    /// The last row until a time.
    fn row_at(&self, time_s: f64) -> Option<&'a FlowSample> {
        let after = self.rows.partition_point(|row| row.time_us as f64 * 1e-6 <= time_s);
        self.rows[..after].last().copied()
    }

    fn interval(&self, (start_s, end_s): (f64, f64)) -> StreamInterval {
        let (before, now) = (self.row_at(start_s), self.row_at(end_s));
        let grown = |count: fn(&FlowSample) -> Option<i64>| {
            let of = |row: Option<&FlowSample>| row.and_then(count).unwrap_or(0);
            unsigned(Some(of(now) - of(before)))
        };
        let mut tcp = None;
        let mut udp = None;
        let mss = unsigned(now.and_then(|row| row.snd_mss_bytes));
        match (self.protocol(), self.forward) {
            (Protocol::Tcp, true) => {
                tcp = Some(TcpState {
                    retransmits: grown(|row| row.total_retrans_segs),
                    snd_cwnd_bytes: unsigned(now.and_then(|row| row.snd_cwnd_segs)).saturating_mul(mss),
                    snd_wnd_bytes: unsigned(now.and_then(|row| row.snd_wnd_bytes)),
                    rtt_us: unsigned(now.and_then(|row| row.srtt_us)),
                    rttvar_us: unsigned(now.and_then(|row| row.rttvar_us)),
                    pmtu_bytes: if mss > 0 { mss + HEADERS_BYTES } else { 0 },
                    reorder: 0,
                });
            }
            (Protocol::Tcp, false) => {}
            (Protocol::Udp, true) => {
                udp = Some(Datagrams { packets: grown(|row| row.datagrams_sent), ..Datagrams::default() });
            }
            (Protocol::Udp, false) => {
                let lost = grown(|row| row.datagrams_lost);
                udp = Some(Datagrams {
                    packets: grown(|row| row.datagrams_received).saturating_add(lost),
                    lost: i64::try_from(lost).unwrap_or(i64::MAX),
                    out_of_order: grown(|row| row.datagrams_reordered),
                    jitter_s: now.and_then(|row| row.jitter_us).unwrap_or(0) as f64 * 1e-6,
                });
            }
        }
        StreamInterval {
            id: self.id,
            sender: self.forward,
            start_s,
            end_s,
            // Differences of rounded counts, so that intervals add up to the whole.
            bytes: (self.received_at(end_s).round() - self.received_at(start_s).round()).max(0.0) as u64,
            omitted: false,
            tcp,
            udp,
        }
    }

    fn end(&self) -> StreamEnd {
        let flow = self.flow;
        let received = flow.bytes.unwrap_or_else(|| self.received_at(self.duration_s).round() as u64);
        let last = self.rows.last();
        let first_sent = |row: &&FlowSample| Some(row.bytes_sent? - row.bytes_retrans.unwrap_or(0));
        let sent = last.and_then(first_sent).map_or(received, |bytes| unsigned(Some(bytes)));
        let udp = self.protocol() == Protocol::Udp;
        let lost = flow.datagrams_lost.unwrap_or(0);
        let came = unsigned(last.and_then(|row| row.datagrams_received));
        let datagrams = |packets, lost: u64, out_of_order, jitter_us: f64| {
            let lost = i64::try_from(lost).unwrap_or(i64::MAX);
            udp.then_some(Datagrams { packets, lost, out_of_order, jitter_s: jitter_us * 1e-6 })
        };
        let account = |bytes, udp| Account { start_s: 0.0, end_s: self.duration_s, bytes, udp };
        let micros = |value: Option<f64>| value.map_or(0, |us| us.round() as u64);
        let windows = self.rows.iter().filter_map(|row| row.snd_wnd_bytes);
        StreamEnd {
            id: self.id,
            forward: self.forward,
            sent: account(sent, datagrams(flow.datagrams_sent.unwrap_or(0), 0, 0, 0.0)),
            received: account(
                received,
                datagrams(
                    came.saturating_add(lost),
                    lost,
                    flow.datagrams_reordered.unwrap_or(0),
                    flow.jitter_us.unwrap_or(0.0),
                ),
            ),
            tcp: (!udp).then_some(TcpSummary {
                retransmits: flow.retransmitted_segs,
                max_snd_cwnd_bytes: flow.max_cwnd_bytes.unwrap_or(0),
                max_snd_wnd_bytes: unsigned(windows.max()),
                max_rtt_us: micros(flow.max_rtt_us),
                min_rtt_us: micros(flow.min_rtt_us),
                mean_rtt_us: micros(flow.mean_rtt_us),
            }),
        }
    }
}

fn unsigned(value: Option<i64>) -> u64 {
    value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
}
