//! Implements [`Path`] in virtual time: on a scenario's network, with the scenario's flows as other traffic.

use std::convert::Infallible;

use diagnosis::{Arrived, Burst, DatagramPlan, Mtu, Path, RoundTrips, TcpPlan, TcpResult, lost_at_once};
use probe::{
    AvailableBandwidth, AvailableBandwidthResult, Budget, Method, ProbeLimits, Step, TrainObservation,
};
use scenario::{Cc, FlowKind, PingSpec, Scenario, TcpSpec, UdpSpec};
use sim::{MeasuredFlow, MeasurementSession};
use tune::{HostFacts, Reading, SysctlValue};
use units::{BitRate, Bytes, Time};
use verdict::{Buffer, FlowContext, FlowTimes, Generator};

/// Maximum number of measurements of one diagnosis.
pub const MAX_MEASUREMENTS: usize = 40;
/// How long other traffic runs before the first measurement.
const WARM_UP: Time = Time::from_secs(2);
/// Pause between measurements.
const PAUSE: Time = Time::from_millis(300);
/// Maximum duration of the measurement of available bandwidth, as in the program.
const AVAILABLE_TIMEOUT: Time = Time::from_secs(20);
const ECHOES: u32 = 20;
/// Resolution of timestamps, as in `longfat serve`.
const RESOLUTION_NS: f64 = 1000.0;
/// Offset between the clocks of the two ends, ns.
const OFFSET: i64 = 7_777_777_777;
const MTU: u32 = 1500;

/// A path from `h1` to `h2`.
pub struct VirtualPath<'a> {
    session: MeasurementSession<'a>,
    scenario: &'a Scenario,
    cc: String,
}

impl<'a> VirtualPath<'a> {
    /// A path whose scenario has [`MAX_MEASUREMENTS`] flows for measurements. TCP tests use this congestion
    /// control.
    pub fn new(mut session: MeasurementSession<'a>, scenario: &'a Scenario, cc: &str) -> Self {
        session.advance(WARM_UP).unwrap();
        VirtualPath { session, scenario, cc: cc.into() }
    }

    fn measure(&mut self, kind: FlowKind, time: Time) -> MeasuredFlow {
        let measured = self.session.measure(kind, time).unwrap();
        self.session.advance(PAUSE).unwrap();
        measured
    }

    /// Minimum and median round-trip time of this many echoes.
    fn echoes(&mut self, count: u32) -> (Time, Option<Time>) {
        let ping = PingSpec { interval: Time::from_millis(100), count: Some(count), payload: Bytes(56) };
        let echoes = self.measure(FlowKind::Ping(ping), Time::from_secs(3));
        let mut times: Vec<Time> =
            echoes.rows.iter().filter_map(|row| Some(Time::from_nanos(row.srtt_us? as u64 * 1000))).collect();
        times.sort_unstable();
        (*times.first().expect("an echo"), (times.len() > 1).then(|| times[times.len() / 2]))
    }

    /// The settings of a host.
    pub fn facts(&self, name: &str) -> HostFacts {
        let host = self.scenario.host(name).unwrap();
        let defaults = [
            ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
            ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
            ("net.ipv4.tcp_window_scaling", "1"),
            ("net.ipv4.tcp_sack", "1"),
            ("net.ipv4.tcp_timestamps", "1"),
        ];
        let own = host.sysctl.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let sysctls = defaults.into_iter().chain(own).map(|(name, value)| {
            (name.to_owned(), Reading::Known(SysctlValue { value: value.to_owned(), read_only: false }))
        });
        HostFacts { kernel: "6.18.0".into(), sysctls: sysctls.collect(), ..HostFacts::default() }
    }

    fn buffer(&self, host: &str, name: &str) -> Buffer {
        let values = self.facts(host).triple(name);
        values.map_or(Buffer::Unknown, Buffer::Tuned)
    }

    /// The goodput of a TCP test, computed as in a diagnosis.
    pub fn goodput(&mut self, time: Time) -> f64 {
        let plan = TcpPlan { time, congestion: None };
        let seen = self.tcp(&plan).unwrap().unwrap_or_default();
        seen.flow.steady_or_overall_goodput_bps().unwrap_or(0.0)
    }
}

impl Path for VirtualPath<'_> {
    type Error = Infallible;

    fn report_step(&mut self, _: &str) {}

    fn round_trips_and_mtu(&mut self) -> Result<(RoundTrips, Mtu), Infallible> {
        let (fastest, median) = self.echoes(ECHOES);
        Ok((RoundTrips { min: fastest, median }, Mtu { device: MTU, passes: Some(MTU) }))
    }

    fn round_trip(&mut self) -> Option<Time> {
        Some(self.echoes(5).0)
    }

    fn route_mtu(&mut self) -> Option<u32> {
        Some(MTU)
    }

    fn datagrams(&mut self, plan: &DatagramPlan) -> Result<Option<Burst>, Infallible> {
        let size = plan.rate.as_f64() / 8.0 * plan.time.as_secs_f64();
        let udp = UdpSpec {
            rate: plan.rate,
            packet: Some(Bytes(plan.payload.into())),
            size: Some(Bytes((size as u64 / u64::from(plan.payload)).max(1) * u64::from(plan.payload))),
            bursts: None,
        };
        let seen = self.measure(FlowKind::Udp(udp), plan.time + Time::from_secs(3));
        let last = seen.rows.iter().rev().find_map(|row| row.datagrams_received).unwrap_or(0);
        let sent = seen.rows.last().and_then(|row| row.datagrams_sent).unwrap_or(0) as u64;
        Ok(Some(Burst {
            sent_bps: plan.rate.as_f64(),
            sent,
            lost: sent.saturating_sub(last as u64),
            lost_at_once: lost_at_once(&seen.rows),
            dropped_here: seen.dropped_here,
            arrived: Arrived::of(&seen.rows, plan.payload).unwrap_or_default(),
            receiver_was_busy: false,
        }))
    }

    fn tcp(&mut self, plan: &TcpPlan) -> Result<Option<TcpResult>, Infallible> {
        let cc = plan.congestion.clone().unwrap_or_else(|| self.cc.clone());
        let mut seen =
            self.measure(FlowKind::Tcp(TcpSpec { cc: Some(Cc::Named(cc)), ..TcpSpec::default() }), plan.time);
        let Some(name) = seen.rows.first().map(|row| row.flow.clone()) else { return Ok(None) };
        let context = FlowContext {
            name,
            from: "h1".into(),
            to: "h2".into(),
            unknown_path: true,
            send_buffer: self.buffer("h1", "net.ipv4.tcp_wmem"),
            receive_buffer: self.buffer("h2", "net.ipv4.tcp_rmem"),
            generator: Some(Generator::default()),
            ..FlowContext::default()
        };
        let micros = |time: Time| time.as_micros() as i64;
        let times = FlowTimes {
            kind: schema::FlowKind::Tcp,
            cc: seen.cc.clone(),
            started_us: seen.connected.map(micros),
            ended_us: Some(micros(seen.ended)),
            bytes: seen.bytes,
        };
        verdict::decide(&mut seen.rows, &verdict::LinkRows::default(), &context);
        let flow = verdict::summarize(&seen.rows, &seen.events, &times, &context);
        Ok(Some(TcpResult {
            flow,
            rows: seen.rows,
            receiver: Some(self.facts("h2")),
            sender_busy: Some(0.1),
            receiver_busy: Some(0.1),
        }))
    }

    /// Not supported: a session measures one flow at a time.
    fn parallel_goodput(&mut self, _: u32, _: &TcpPlan) -> Result<Option<f64>, Infallible> {
        Ok(None)
    }

    fn available(
        &mut self,
        max_rate: BitRate,
        mtu: Option<u32>,
    ) -> Result<Option<AvailableBandwidthResult>, Infallible> {
        let limits = ProbeLimits {
            max_bytes_per_second: max_rate.0 / 8,
            mtu: mtu.unwrap_or(MTU),
            resolution_ns: RESOLUTION_NS,
        };
        let mut method = AvailableBandwidth::new(limits);
        let mut budget = Budget::new(max_rate);
        let until = self.session.now().later_by(AVAILABLE_TIMEOUT);
        while self.session.now() < until {
            let Step::Send(fleet) = method.next_step() else { return Ok(Some(method.result())) };
            let mut seen = Vec::new();
            for train in &fleet.trains {
                let earliest = self.session.now().later_by(fleet.gap);
                let begin = budget.earliest(earliest, train).expect("within the limit");
                self.session.advance(begin.since(self.session.now())).unwrap();
                let at: Vec<Time> = train.offsets_ns.iter().map(|ns| Time::from_nanos(*ns)).collect();
                let arrived = self.session.send_train(train.bytes, &at).unwrap();
                budget.record(begin, begin + Time::from_nanos(train.duration_ns()), train);
                seen.push(TrainObservation {
                    bytes: train.bytes,
                    sent_ns: train.offsets_ns.iter().map(|ns| (begin.as_nanos() + ns) as i64).collect(),
                    arrived_ns: arrived
                        .iter()
                        .map(|at| Some((begin.as_nanos() + at.as_ref()?.as_nanos()) as i64 + OFFSET))
                        .collect(),
                    host_drops: 0,
                });
            }
            method.add_observations(&seen);
        }
        let mut result = method.result();
        result.validity.valid = false;
        result.validity.reasons.push("the measurement was ended early".into());
        Ok(Some(result))
    }
}
