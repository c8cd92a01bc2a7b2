//! A diagnosis of the path from this host to another.

use std::net::IpAddr;

use diagnosis::{Kind, Observed, Options, Ranking};
use tune::{Goal, HostFacts};
use units::{BitRate, Time, three_digits};

use super::{Error, MeasuredPath};

/// MTU of the outgoing device, bytes, if that device is unknown.
pub(super) const DEFAULT_DEVICE_MTU: u32 = 1500;
/// Maximum rate of datagrams if the expected rate of the path is unknown.
const DEFAULT_MAX_RATE: BitRate = BitRate(1_000_000_000);
/// Datagrams are sent up to this multiple of the expected goodput, so that the test shows whether the path
/// carries the expected goodput.
const MAX_RATE_FACTOR: f64 = 1.5;
/// A host is tuned for this multiple of the path's goodput: headers, and a reserve.
const TUNING_FACTOR: f64 = 1.2;
/// Ethernet with preamble and inter-frame gap (IEEE 802.3), bytes.
const ETHERNET_OVERHEAD: u32 = 38;
/// IPv4 and TCP headers with timestamps, bytes.
const TCP_HEADERS: u32 = 52;
/// IP and UDP headers over IPv4 and over IPv6, bytes.
const UDP_HEADERS: (u32, u32) = (28, 48);

/// Options of a diagnosis.
#[derive(Debug, Clone)]
pub struct DiagnosisRequest {
    /// Expected rate of the path; `None`: the rate of this host's device.
    pub rate: Option<BitRate>,
    /// Maximum rate of datagrams; `None`: 1.5 times the expected rate, or 1 Gb/s.
    pub max_rate: Option<BitRate>,
    /// Whether bursts of datagrams are permitted.
    pub datagrams: bool,
    /// Whether probe sessions are permitted. A server that requires authentication rejects them.
    pub probes: bool,
    /// Duration of the TCP test.
    pub time: Time,
    /// The sender's congestion control; `None`: the host's default.
    pub congestion: Option<String>,
}

/// The limits of TCP to a host, with all measurements.
pub struct Diagnosis {
    /// The name or address that was given.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
    /// The options of the measurements.
    pub options: Options,
    /// The measurements, and both hosts' settings.
    pub observed: Observed,
    /// The outgoing device.
    pub device: Option<String>,
    /// The limits, most severe first.
    pub ranking: Ranking,
}

/// A binding limit at the other host, which tuning this host does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemedyElsewhere {
    /// The other host.
    pub host: String,
    /// The limit.
    pub kind: Kind,
    /// The command that changes it there, or the advice if there is no single command.
    pub change: String,
}

/// A diagnosis that has not begun.
pub struct Plan {
    /// The options of the measurements; [`Options::load`] is the load that they send.
    pub options: Options,
    sender: HostFacts,
    device: Option<String>,
}

/// Reads the settings of this host and completes the options. Sends nothing.
pub fn plan(request: &DiagnosisRequest, path: &mut MeasuredPath) -> Plan {
    let sender = tune::inspect();
    let device = tune::device_towards(path.address);
    let facts = device.as_deref().and_then(|name| sender.device(name));
    path.device_mtu = facts.map_or(DEFAULT_DEVICE_MTU, |device| device.mtu);
    let expected = expected(request.rate, facts, path.device_mtu);
    let max_rate = request.max_rate.unwrap_or_else(|| {
        let rate = |goodput_bps: f64| BitRate(three_digits(goodput_bps * MAX_RATE_FACTOR));
        expected.as_ref().map_or(DEFAULT_MAX_RATE, |(goodput_bps, _)| rate(*goodput_bps))
    });
    let options = Options {
        from: "this host".into(),
        to: path.tests.peer.host.clone(),
        expected,
        max_rate,
        datagrams: request.datagrams,
        datagram_headers: if path.address.is_ipv4() { UDP_HEADERS.0 } else { UDP_HEADERS.1 },
        probes: request.probes,
        time: request.time,
        congestion: request.congestion.clone(),
    };
    Plan { options, sender, device }
}

/// Measures the path and ranks what limits TCP on it.
///
/// # Errors
/// The first measurement without which there is no diagnosis.
pub fn diagnose(plan: Plan, path: &mut MeasuredPath) -> Result<Diagnosis, Error> {
    let Plan { options, sender, device } = plan;
    let host = path.tests.peer.host.clone();
    let (observed, ranking) = diagnosis::diagnose(path, &options, Some(sender))?;
    Ok(Diagnosis { host, address: path.address, options, observed, device, ranking })
}

impl Diagnosis {
    /// The path for which this host should be tuned; `None` if the path's rate is unknown.
    pub fn tuning_goal(&self) -> Option<Goal> {
        let measured_bps =
            self.observed.capacity.as_ref().map(|capacity| capacity.goodput_bps * TUNING_FACTOR);
        let expected_bps = self.observed.expected.as_ref().map(|(goodput_bps, _)| *goodput_bps);
        Some(Goal {
            rate: BitRate(three_digits(measured_bps.or(expected_bps)?)),
            rtt: self.observed.rtt,
            streams: 1,
            device: self.device.clone(),
            lower: false,
        })
    }
}

impl Diagnosis {
    /// The change at the other host, if the limit that binds (the first of `ranking`) is there.
    pub fn remedy_elsewhere(&self, ranking: &Ranking) -> Option<RemedyElsewhere> {
        let limit = ranking.limits.first().filter(|limit| limit.measured)?;
        let host = limit.host.clone().filter(|host| *host == self.options.to)?;
        let limit_change = limit
            .change
            .as_ref()
            .map(|change| change.strip_prefix(&format!("on {host}: ")).unwrap_or(change).to_owned());
        // The other host's settings are unknown, so the command computes the values on that host.
        let tune = || {
            let goal = self.tuning_goal().filter(|_| limit.kind == Kind::ReceiveBuffer)?;
            let mbit = goal.rate.0.div_ceil(1_000_000);
            Some(format!(
                "longfat tune --rate {mbit}mbit --rtt {}us --apply",
                goal.rtt.as_micros_f64().ceil()
            ))
        };
        Some(RemedyElsewhere { host, kind: limit.kind, change: limit_change.or_else(tune)? })
    }
}

/// The expected goodput of the path, bit/s, and the source of that expectation.
fn expected(rate: Option<BitRate>, device: Option<&tune::Device>, mtu: u32) -> Option<(f64, String)> {
    let goodput_bps =
        |rate| model::goodput_bps(rate, mtu.saturating_sub(TCP_HEADERS), TCP_HEADERS, ETHERNET_OVERHEAD);
    if let Some(rate) = rate {
        return Some((goodput_bps(rate), format!("--rate {rate}")));
    }
    let device = device?;
    let rate = BitRate(device.speed_mbps.known()?.saturating_mul(1_000_000));
    Some((goodput_bps(rate), format!("the speed of {} ({rate})", device.name)))
}
