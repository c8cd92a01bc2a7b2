//! A simulated copy of the measured path, and the goodput of one connection on it: with all limits, and
//! without each of them.

use std::collections::BTreeMap;

use scenario::{Cc, FlowKind, Scenario, ScenarioFile, TcpSpec};
use sim::{HostDefaults, MeasurementSession};
use tune::HostFacts;
use units::Time;
use verdict::{FlowContext, FlowTimes};

use crate::{
    limit::{Kind, Limit},
    native::Native,
    observed::{Observed, marked_segs},
};

/// Ethernet header, which a link's rate includes, and IPv4 and TCP headers with timestamps, bytes.
const ETHERNET_HEADER: f64 = 14.0;
const TCP_IP_HEADERS: f64 = 52.0;
/// TCP's timestamp option, padded, bytes: the kernel's MSS does not include it, TCP_MAXSEG does.
const TIMESTAMP_OPTION: u32 = 12;
/// Packet size if the path MTU is unknown, bytes.
const DEFAULT_PACKET: f64 = 1500.0;
/// Maximum number of packets of a simulated test, which is shorter on a faster path.
const MAX_PACKETS: f64 = 1e6;
/// Minimum number of round trips of a simulated test. If the maximum number of packets does not suffice for
/// them, nothing is predicted.
const MIN_ROUND_TRIPS: f64 = 50.0;
/// The congestion control of most connections.
const MOST_COMMON_CC: &str = "cubic";
/// Time for which other traffic runs before the test begins.
const WARM_UP: Time = Time::from_secs(2);
/// Settings that are copied from the measured hosts to the simulated ones.
const SETTINGS: [&str; 8] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_notsent_lowat",
];
/// Duration of the scenario: longer than any test.
const SCENARIO_DURATION: &str = "1000s";
/// A buffer that does not limit, bytes.
const AMPLE_BUFFER: u64 = 1 << 28;
/// A transmit queue that does not overflow, packets.
const AMPLE_TX_QUEUE: u32 = 10_000;
/// Maximum ratio of simulated to measured goodput, or of measured to simulated, if the simulated path matches
/// the measured one.
const MAX_MISFIT: f64 = 1.5;
/// Maximum number of simulated tests over which goodput is averaged, and maximum total of their packets.
const MAX_TRIES: f64 = 3.0;
const MAX_TOTAL_PACKETS: f64 = 2e6;
/// Maximum number of other connections that are tried.
const MAX_FLOWS: u32 = 8;
/// Candidate multiples of a small send buffer: a single write may exceed it.
const SEND_BUFFERS: [f64; 5] = [1.0, 1.4, 2.0, 3.0, 4.0];
/// Maximum ECN threshold that is tried, packets, as an exponent: thresholds are powers of the square root
/// of 2.
const MAX_MARK_STEPS: u32 = 18;
/// Maximum number of seeds that are tried to match the measured path.
const MAX_SEEDS: f64 = 4.0;

/// Weight of the number of marked segments, against that of goodput, when a simulated path is fitted.
const WEIGHT_OF_MARKS: f64 = 0.25;

/// The result of a simulated test.
#[derive(Debug, Clone, Copy)]
struct SimulatedTest {
    goodput_bps: f64,
    /// Segments that arrived with an ECN mark.
    marked_segs: u64,
}

/// A simulated path with the limits found.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedPath {
    /// The slowest link's rate, and its expected rate without a slow hop, bit/s with Ethernet's headers.
    link_bps: f64,
    expected_bps: f64,
    /// The largest packet that passes, bytes of IP.
    packet: f64,
    /// Round-trip time without queues.
    rtt: Time,
    /// Queueing delay of its full queue.
    queue: Time,
    /// Random loss rate.
    loss: f64,
    /// ECN marking threshold, packets.
    marks_from: Option<f64>,
    /// A policer's rate, bit/s, and its bucket, bytes.
    policer: Option<(f64, f64)>,
    /// Rate of other UDP traffic, bit/s, and number of other TCP connections.
    others_bps: f64,
    other_flows: u32,
    /// Their congestion control.
    other_cc: String,
    /// Whether datagrams may have been lost in a queue that other traffic filled, rather than at random.
    loses_among_others: bool,
    /// Whether only a burst measured the other traffic, which a short queue makes inexact.
    is_share_by_burst: bool,
    /// Whether the queue is fair.
    is_fair: bool,
    /// Transmit queue of the sending host, packets, if it overflows.
    own_queue: Option<f64>,
    /// Whether the send buffer limited the test.
    fills_send_buffer: bool,
    /// Settings of the hosts by name.
    sender: BTreeMap<String, String>,
    receiver: BTreeMap<String, String>,
    kernel: Option<(u8, u8)>,
    /// The congestion control.
    cc: String,
    /// The maximum segment size, bytes with TCP's options, if it is clamped.
    mss: Option<u32>,
    /// Duration of the test.
    time: Time,
    seed: u64,
}

impl SimulatedPath {
    /// The simulated copy of an observed path; `None` if its rate is unknown, or for limits that cannot be
    /// simulated.
    pub(crate) fn of(seen: &Observed, time: Time, limits: &[Limit]) -> Option<Self> {
        let has = |kind| limits.iter().any(|limit| limit.kind == kind);
        // Limits that a scenario cannot express.
        let others = [
            Kind::MtuBlackHole,
            Kind::ReceiverCpu,
            Kind::SenderCpu,
            Kind::Application,
            Kind::PathChanged,
            Kind::CachedSsthresh,
        ];
        if others.into_iter().any(has) || seen.capacity.as_ref().is_none_or(|capacity| capacity.at_least) {
            return None;
        }
        let capacity = seen.capacity.as_ref()?;
        let flow = seen.flow.as_ref()?;
        if has(Kind::ReceiveBuffer) && seen.receiver.is_none() {
            return None;
        }
        let packet = seen.mtu.passes.map_or(DEFAULT_PACKET, f64::from);
        let link_factor = (packet + ETHERNET_HEADER) / (packet - TCP_IP_HEADERS);
        let carried = seen.capacity_bps()? * link_factor;
        let expected = seen.expected.as_ref().map_or(carried, |(bps, _)| bps * link_factor);
        let policed = seen.policed_bps().map(|bps| bps * link_factor);
        // The link behind a policer cannot be measured.
        let link_bps = match (policed, seen.probed_bps()) {
            (None, _) => carried,
            (Some(_), Some(probed)) if !seen.emptied_a_bucket() => probed * link_factor,
            _ => carried.max(expected),
        };
        let fair_queueing = seen.fair_queueing();
        let has_tcp =
            has(Kind::CompetingTraffic) && (seen.is_other_traffic_elastic() || fair_queueing.is_some());
        let behind_others = seen.policed_behind_others_bps().filter(|_| has(Kind::CompetingTraffic));
        let behind_others = behind_others.map(|bps| bps * link_factor);
        let rtt = Time::from_secs_f64(seen.base_rtt_us() * 1e-6);
        let left = seen.available_bps().map_or(seen.test_goodput_bps(), |left| left.value) * link_factor;
        let others_bps =
            if has(Kind::CompetingTraffic) && !has_tcp { (carried - left).max(0.0) } else { 0.0 };
        // The kernel notifies TCP of drops at the device. If TCP detects them as losses instead, the device's
        // queue is like one on the path.
        let is_notified = has(Kind::Loss) || seen.losses.is_none_or(|losses| losses.episodes <= 1);
        let own = is_notified && (has(Kind::LocalQueue) || capacity.overflows_here);
        let waited = |longest: f64| Time::from_secs_f64((longest * 1e-6 - rtt.as_secs_f64()).max(0.0));
        let queue = match flow.max_rtt_us {
            // Other traffic keeps it filled: a burst does not measure its whole length.
            Some(longest) if has_tcp => waited(longest),
            // Without an observed overflow: as much as one connection needs.
            _ => capacity.queue.filter(|_| policed.is_none() && !own).unwrap_or(rtt),
        };
        let loss = if has_tcp { 0.0 } else { seen.random_loss_rate(has(Kind::Loss)) };
        let is_probed = seen.is_available_confirmed();
        let packets = link_bps * time.as_secs_f64() / 8.0 / (packet + ETHERNET_HEADER);
        let time = Time::from_secs_f64(time.as_secs_f64() * (MAX_PACKETS / packets).min(1.0));
        if time.as_secs_f64() < MIN_ROUND_TRIPS * rtt.as_secs_f64() {
            return None;
        }
        Some(SimulatedPath {
            link_bps,
            expected_bps: expected.max(link_bps),
            packet,
            rtt,
            queue,
            loss,
            marks_from: has(Kind::EcnMarks).then_some(8.0),
            policer: policed
                .or(behind_others)
                .map(|bps| (bps, capacity.at_once_bytes.unwrap_or(0.0).max(2.0 * packet))),
            others_bps,
            other_flows: fair_queueing
                .map_or(u32::from(has_tcp), |fair_queueing| fair_queueing.others.round() as u32),
            other_cc: MOST_COMMON_CC.into(),
            loses_among_others: loss > 0.0 && !has(Kind::Loss) && !is_probed,
            is_share_by_burst: others_bps > 0.0 && !is_probed,
            is_fair: fair_queueing.is_some(),
            own_queue: own.then(|| {
                let wait = capacity.queue.unwrap_or(rtt).as_secs_f64();
                wait * link_bps / 8.0 / (packet + ETHERNET_HEADER)
            }),
            fills_send_buffer: limits.iter().any(|limit| limit.kind == Kind::SendBuffer && limit.measured),
            sender: sysctls(seen.sender.as_ref()),
            receiver: sysctls(seen.receiver.as_ref()),
            kernel: seen.sender.as_ref().and_then(HostFacts::version).map(|version| {
                let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
                (small(version.major), small(version.minor))
            }),
            cc: flow.cc.clone().unwrap_or_else(|| MOST_COMMON_CC.into()),
            mss: seen.clamped_mss().map(|clamped| clamped.mss as u32 + TIMESTAMP_OPTION),
            time,
            seed: 1,
        })
    }

    /// Fits the parameters that could not be measured to the test's goodput, and to the number of segments
    /// with ECN marks. Returns the fitted path and its goodput.
    pub(crate) fn fitted(self, test_bps: f64, marked_segs: u64) -> Option<(Self, f64)> {
        let marks = |step: u32| (f64::from(step) / 2.0).exp2().round();
        let wmem = |times: f64| Some(SimulatedPath { sender: self.with_send_buffer(times)?, ..self.clone() });
        let candidates: Vec<SimulatedPath> = if self.fills_send_buffer {
            SEND_BUFFERS.into_iter().filter_map(wmem).collect()
        } else if self.other_flows > 0 {
            // Other connections, too, may use the test's congestion control.
            let ccs = [MOST_COMMON_CC, self.cc.as_str()];
            let ccs = &ccs[..if self.cc == MOST_COMMON_CC { 1 } else { 2 }];
            let each = ccs.iter().flat_map(|cc| (1..=MAX_FLOWS).map(move |other_flows| (*cc, other_flows)));
            each.map(|(cc, other_flows)| SimulatedPath { other_flows, other_cc: cc.into(), ..self.clone() })
                .collect()
        } else if self.marks_from.is_some() {
            (2..=MAX_MARK_STEPS)
                .map(|step| SimulatedPath { marks_from: Some(marks(step)), ..self.clone() })
                .collect()
        } else {
            vec![self]
        };
        // A window-limited test has the same goodput at different thresholds, but not the same number of
        // marks.
        let misfit = |(path, now): &(SimulatedPath, SimulatedTest)| {
            let marks = ((now.marked_segs + 1) as f64 / (marked_segs + 1) as f64).ln().abs();
            let marks = if path.marks_from.is_some() { WEIGHT_OF_MARKS * marks } else { 0.0 };
            (now.goodput_bps / test_bps).ln().abs() + marks
        };
        let mut best: Option<(SimulatedPath, SimulatedTest)> = None;
        let tries = candidates.first()?.tries(MAX_SEEDS);
        for seed in 1..=tries {
            let tried = candidates.iter().filter_map(|path| {
                let path = SimulatedPath { seed, ..path.clone() };
                let now = path.test()?;
                Some((path, now))
            });
            best = tried.chain(best).min_by(|a, b| misfit(a).total_cmp(&misfit(b)));
            if best.as_ref().is_some_and(|(_, now)| Self::matches(now.goodput_bps, test_bps)) {
                break;
            }
        }
        best.map(|(path, now)| (path, now.goodput_bps))
    }

    /// The sender's settings with a send buffer multiplied by `times`.
    fn with_send_buffer(&self, times: f64) -> Option<BTreeMap<String, String>> {
        let mut sender = self.sender.clone();
        let wmem = sender.get_mut("net.ipv4.tcp_wmem")?;
        let (first_two, maximum) = wmem.rsplit_once(' ')?;
        *wmem = format!("{first_two} {}", (maximum.parse::<f64>().ok()? * times) as u64);
        Some(sender)
    }

    /// Whether a simulated goodput matches the test's, within random variation.
    pub(crate) fn matches(simulated_bps: f64, test_bps: f64) -> bool {
        (simulated_bps / test_bps).ln().abs() <= MAX_MISFIT.ln()
    }

    /// This path without a limit of this kind; `None` for limits that are not simulated.
    pub(crate) fn without(&self, kind: Kind) -> Option<Self> {
        let mut path = self.clone();
        let ample = |host: &mut BTreeMap<String, String>, name: &str| {
            let text = host.get(name).cloned().unwrap_or_default();
            let text = text.rsplit_once(' ').map_or("4096 131072", |(first_two, _)| first_two);
            host.insert(name.into(), format!("{text} {AMPLE_BUFFER}"));
        };
        let on = |path: &mut SimulatedPath, name: &str| {
            for host in [&mut path.sender, &mut path.receiver] {
                host.insert(name.into(), "1".into());
            }
        };
        match kind {
            Kind::ReceiveBuffer => ample(&mut path.receiver, "net.ipv4.tcp_rmem"),
            Kind::SendBuffer => ample(&mut path.sender, "net.ipv4.tcp_wmem"),
            Kind::WindowScaling => on(&mut path, "net.ipv4.tcp_window_scaling"),
            Kind::SackOff => on(&mut path, "net.ipv4.tcp_sack"),
            Kind::Loss => path.loss = 0.0,
            Kind::ShortQueue => path.queue = path.queue.max(path.rtt),
            Kind::Policer => path.policer = None,
            Kind::EcnMarks => path.marks_from = None,
            Kind::SmallMss => path.mss = None,
            Kind::LocalQueue => (path.own_queue, path.queue) = (None, path.queue.max(path.rtt)),
            Kind::SlowHop => path.link_bps = path.expected_bps,
            Kind::CompetingTraffic => {
                (path.others_bps, path.other_flows) = (0.0, 0);
                if self.loses_among_others {
                    path.loss = 0.0;
                }
            }
            _ => return None,
        }
        Some(path)
    }

    /// Whether a limit hides others: no queue fills behind a policer or a slow hop, and no policer drops;
    /// only connections that fill a queue get ECN marks. Without a valid probe, lost datagrams may belong to
    /// other traffic, whose rate is then inexact.
    pub(crate) fn hides_other_limits(&self, kind: Kind) -> bool {
        let ecn = |host: &BTreeMap<String, String>| {
            host.get("net.ipv4.tcp_ecn").map_or("2", String::as_str).to_owned()
        };
        match kind {
            Kind::Policer | Kind::SlowHop => true,
            Kind::CompetingTraffic => self.loses_among_others,
            Kind::ShortQueue => self.is_share_by_burst,
            Kind::ReceiveBuffer | Kind::SendBuffer | Kind::WindowScaling => {
                self.marks_from.is_none() && ecn(&self.sender) == "1" && ecn(&self.receiver) != "0"
            }
            _ => false,
        }
    }

    /// The mean goodput of several simulated tests.
    pub(crate) fn mean_goodput(&self) -> Option<f64> {
        let all: Option<Vec<f64>> = (0..self.tries(MAX_TRIES))
            .map(|more| Some(SimulatedPath { seed: self.seed + more, ..self.clone() }.test()?.goodput_bps))
            .collect();
        all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// Number of tests to simulate, at most `maximum`.
    fn tries(&self, maximum: f64) -> u64 {
        let packets = self.link_bps * self.time.as_secs_f64() / 8.0 / (self.packet + ETHERNET_HEADER);
        (MAX_TOTAL_PACKETS / packets).clamp(1.0, maximum) as u64
    }

    /// Simulates a test of one connection; `None` if it cannot be simulated.
    fn test(&self) -> Option<SimulatedTest> {
        let file = ScenarioFile::parse("measured.toml", &self.text()).ok()?;
        let scenario: Scenario = MeasurementSession::reserve(file.resolve(None, &[]).ok()?, "h1", "h2", 1);
        let defaults = HostDefaults::default();
        let kernel = self.kernel.filter(|kernel| scenario::is_simulated(*kernel)).unwrap_or(defaults.kernel);
        let (machine, mut native) = (HostDefaults { kernel, ..defaults }, Native::default());
        let mut session = MeasurementSession::new(&scenario, 1, &machine, &mut native).ok()?;
        session.advance(WARM_UP).ok()?;
        let tcp = TcpSpec { cc: Some(Cc::Named(self.cc.clone())), mss: self.mss, ..TcpSpec::default() };
        let seen = session.measure(FlowKind::Tcp(tcp), self.time).ok()?;
        let micros = |time: Time| time.as_micros() as i64;
        let times = FlowTimes {
            kind: schema::FlowKind::Tcp,
            cc: seen.cc,
            started_us: seen.connected.map(micros),
            ended_us: Some(micros(seen.ended)),
            bytes: seen.bytes,
        };
        let name = seen.rows.first()?.flow.clone();
        let flow =
            verdict::summarize(&seen.rows, &[], &times, &FlowContext { name, ..FlowContext::default() });
        Some(SimulatedTest {
            goodput_bps: flow.steady_or_overall_goodput_bps()?,
            marked_segs: marked_segs(&seen.rows),
        })
    }

    /// The scenario file for the user: the path, and the test, which starts after other traffic.
    pub(crate) fn scenario(&self) -> String {
        let text =
            self.text().replacen(SCENARIO_DURATION, &format!("{}ms", (WARM_UP + self.time).as_millis()), 1);
        format!(
            "# The path as longfat diagnose measured it.\n{text}[[flows]]\nname = \"test\"\nfrom = \"h1\"\nto = \"h2\"\ncc = {:?}\nstart = \"{}ms\"\n{}",
            self.cc,
            WARM_UP.as_millis(),
            self.mss.map_or(String::new(), |mss| format!("mss = {mss}\n"))
        )
    }

    /// The scenario without the test: the measured path from h1 to h2, and other traffic from h3 to h4.
    fn text(&self) -> String {
        let frame = self.packet + ETHERNET_HEADER;
        let link = |bps: f64| format!("rate = \"{}bit\"", bps as u64);
        let queue = self.queue.as_secs_f64() * self.link_bps / 8.0 + frame;
        let unmarked = if self.is_fair { ", qdisc = \"fq_codel\"" } else { "" };
        let marks = self.marks_from.map_or(unmarked.to_owned(), |from| {
            format!(", qdisc = {{ kind = \"droptail\", mark_above = \"{from:.0}p\" }}")
        });
        let police = self.policer.map_or(String::new(), |(bps, bytes)| {
            format!("forward = {{ {}, burst = \"{bytes:.0}B\", queue = \"2p\" }}\n", link(bps))
        });
        // A device's queue fills only if the device is the slowest link.
        let (nic, access) = self.own_queue.map_or((String::new(), String::new()), |packets| {
            let nic =
                format!("nic = {{ tx_queue = {:.0} }}\n", packets.clamp(2.0, f64::from(AMPLE_TX_QUEUE)));
            (nic, format!("forward = {{ {} }}\n", link(self.link_bps)))
        });
        let between = if self.own_queue.is_some() { self.link_bps * 1.01 } else { self.link_bps };
        let mut flows = String::new();
        if self.others_bps >= 1000.0 {
            flows = format!(
                "[[flows]]\nname = \"other\"\nkind = \"udp\"\nfrom = \"h3\"\nto = \"h4\"\n{}\n",
                link(self.others_bps)
            );
        }
        for number in 0..self.other_flows {
            flows.push_str(&format!(
                "[[flows]]\nname = \"other-{number}\"\nfrom = \"h3\"\nto = \"h4\"\ncc = {:?}\n",
                self.other_cc
            ));
        }
        if flows.is_empty() {
            // A scenario needs at least one flow.
            flows =
                "[[flows]]\nname = \"none\"\nkind = \"ping\"\nfrom = \"h3\"\nto = \"h4\"\ncount = 1\n".into();
        }
        format!(
            "duration = \"{SCENARIO_DURATION}\"\nseed = {seed}\n\
             [hosts.h1]\naddress = \"10.0.0.1/24\"\nsysctl = {{ {sender} }}\n{nic}\
             [hosts.h2]\naddress = \"10.0.0.2/24\"\nsysctl = {{ {receiver} }}\n\
             [hosts.h3]\naddress = \"10.0.0.3/24\"\nsysctl = {{ \"net.ipv4.tcp_wmem\" = \"4096 16384 {AMPLE_BUFFER}\" }}\n\
             [hosts.h4]\naddress = \"10.0.0.4/24\"\nsysctl = {{ \"net.ipv4.tcp_rmem\" = \"4096 131072 {AMPLE_BUFFER}\" }}\n\
             [switches]\nnames = [\"s1\", \"s2\"]\n\
             [[links]]\nends = [\"h1\", \"s1\"]\n{access}[[links]]\nends = [\"h3\", \"s1\"]\n\
             [[links]]\nends = [\"s1\", \"s2\"]\n\
             forward = {{ {rate}, queue = \"{queue:.0}B\", delay = \"{delay}us\", loss = {loss:.7}{marks} }}\n\
             backward = {{ delay = \"{delay}us\" }}\n\
             [[links]]\nends = [\"s2\", \"h2\"]\n{police}[[links]]\nends = [\"s2\", \"h4\"]\n{flows}",
            sender = settings(&self.sender),
            receiver = settings(&self.receiver),
            rate = link(between),
            delay = self.rtt.as_nanos() / 2000,
            loss = self.loss,
            seed = self.seed,
        )
    }
}

/// The settings of a host that the simulation supports, if they are numeric.
fn sysctls(facts: Option<&HostFacts>) -> BTreeMap<String, String> {
    let known = |name: &&str| {
        let value = facts?.sysctls.get(*name)?.known()?.value.clone();
        let is_numbers = value.split_whitespace().all(|number| number.parse::<u32>().is_ok());
        is_numbers.then(|| ((*name).to_owned(), value))
    };
    SETTINGS.iter().filter_map(known).collect()
}

/// Formats settings as a TOML inline table's content.
fn settings(sysctls: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = sysctls.iter().map(|(name, value)| format!("{name:?} = {value:?}")).collect();
    all.join(", ")
}
