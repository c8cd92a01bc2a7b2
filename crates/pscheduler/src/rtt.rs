//! The test `rtt` by TWAMP or STAMP: one participant, and a reflector at the destination.

use std::time::Duration;

use iperf3::IpVersion;
use probe::RoundTripTimes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use stamp::{ControlProtocol, MeasuredPackets, Protocol, SenderOptions, Spacing};
use units::Time;

use crate::{Error, Settings, documents::RunInput, duration::IsoDuration, slot};

/// The name of the test.
pub const NAME: &str = "rtt";
/// The newest schema of specifications that is known.
const MAX_SCHEMA: u32 = 4;
/// The default of ping(8) and of other tools for this test.
const DEFAULT_COUNT: u32 = 5;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the control connection and the result.
const ALLOWANCE: Duration = Duration::from_secs(5);
/// Largest payload of a UDP datagram.
const MAX_LENGTH: usize = 65_507;

/// The parameters of the test that have an effect.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Spec {
    schema: Option<u32>,
    dest: String,
    count: Option<u32>,
    interval: Option<IsoDuration>,
    timeout: Option<IsoDuration>,
    deadline: Option<IsoDuration>,
    /// Bytes of payload.
    #[serde(default)]
    length: usize,
    ip_version: Option<u8>,
    port: Option<u16>,
    protocol: Option<String>,
}

/// All accepted parameters: those of [`Spec`], and others without effect.
const OPTIONS: [&str; 14] = [
    "schema",
    "dest",
    "count",
    "interval",
    "timeout",
    "deadline",
    "length",
    "ip-version",
    "port",
    "protocol",
    "source",
    "source-node",
    "hostnames",
    "suppress-loopback",
];

impl Spec {
    pub fn read(spec: &Map<String, Value>) -> Result<Spec, String> {
        if let Some(option) = spec.keys().find(|key| !OPTIONS.contains(&key.as_str())) {
            return Err(format!("longfat does not support the option {option}"));
        }
        let spec: Spec =
            serde_json::from_value(Value::Object(spec.clone())).map_err(|error| error.to_string())?;
        let schema = spec.schema.unwrap_or(1);
        if schema > MAX_SCHEMA {
            return Err(format!(
                "schema {schema} is newer than {MAX_SCHEMA}, which this version of longfat knows"
            ));
        }
        if spec.length > MAX_LENGTH {
            return Err(format!("length is at most {MAX_LENGTH} bytes"));
        }
        if spec.count == Some(0) || spec.interval.is_some_and(|interval| interval.0.is_zero()) {
            return Err("count and interval must be positive".into());
        }
        if !matches!(spec.ip_version, None | Some(4 | 6)) {
            return Err("ip-version must be 4 or 6".into());
        }
        spec.protocol()?;
        Ok(spec)
    }

    /// Why a test cannot be run.
    pub fn reasons_against(spec: &Map<String, Value>) -> Vec<String> {
        Spec::read(spec).err().into_iter().collect()
    }

    fn protocol(&self) -> Result<(Protocol, u16), String> {
        match self.protocol.as_deref() {
            Some("twamp") => Ok((Protocol::Twamp, ControlProtocol::Twamp.port())),
            Some("stamp") => Ok((Protocol::Stamp, stamp::PORT)),
            Some("icmp") | None => Err(
                "ICMP needs a privilege that pScheduler's tools lack; request the protocol twamp or stamp"
                    .into(),
            ),
            Some(other) => Err(format!("longfat does not support the protocol {other}")),
        }
    }

    fn interval(&self) -> Duration {
        self.interval.map_or(DEFAULT_INTERVAL, |interval| interval.0)
    }

    /// Number of packets, of which none is sent after the deadline.
    fn count(&self) -> u32 {
        let count = self.count.unwrap_or(DEFAULT_COUNT);
        self.deadline.map_or(count, |deadline| {
            let intervals = deadline.0.as_nanos() / self.interval().as_nanos().max(1);
            count.min(u32::try_from(intervals).unwrap_or(u32::MAX).saturating_add(1))
        })
    }

    fn sending_time(&self) -> Duration {
        self.interval() * (self.count() - 1)
    }

    fn timeout(&self) -> Duration {
        self.timeout.map_or(DEFAULT_TIMEOUT, |timeout| timeout.0)
    }

    /// The length of the slot.
    pub fn slot(&self) -> Duration {
        self.sending_time() + self.timeout() + ALLOWANCE
    }
}

/// Runs the test.
pub(crate) fn run(input: &RunInput, settings: &Settings) -> Result<Value, Error> {
    let spec = Spec::read(&input.test.spec).map_err(Error::Input)?;
    if input.participant != 0 {
        return Err(Error::Input(format!(
            "an rtt test has one participant; this is number {}",
            input.participant
        )));
    }
    let is_over = slot::begin(&input.schedule, &settings.stop);
    let measured = sender(&spec).and_then(|options| {
        let measured =
            stamp::measure_packets(&options, &is_over, &mut |_| {}).map_err(|error| error.to_string())?;
        Ok((options, measured))
    });
    Ok(match measured {
        // Without a control connection a missing reflector cannot be distinguished from losses.
        Ok((options, measured)) if measured.trips.is_empty() && options.protocol == Protocol::Stamp => {
            failed(&format!(
                "no reply from {}: is a STAMP reflector running there, as `longfat serve --stamp`?",
                options.to
            ))
        }
        Ok((options, measured)) => json!({
            "schema": 1, "succeeded": true, "error": null, "diags": diags(&options, &measured),
            "result": result(&options, &measured),
        }),
        Err(error) => failed(&error),
    })
}

fn sender(spec: &Spec) -> Result<SenderOptions, String> {
    let (protocol, default_port) = spec.protocol()?;
    let ip = match spec.ip_version {
        Some(4) => Some(IpVersion::V4),
        Some(6) => Some(IpVersion::V6),
        _ => None,
    };
    let mut to = probe_transport::resolve(&spec.dest, ip).map_err(|error| error.to_string())?;
    to.set_port(spec.port.unwrap_or(default_port));
    Ok(SenderOptions {
        protocol,
        to,
        count: spec.count(),
        interval: Time::from_duration(spec.interval()),
        spacing: Spacing::Fixed,
        payload: spec.length,
        key: None,
        session: 0,
        timeout: spec.timeout(),
    })
}

fn failed(error: &str) -> Value {
    json!({ "schema": 1, "succeeded": false, "error": error, "diags": "", "result": null })
}

fn diags(options: &SenderOptions, measured: &MeasuredPackets) -> String {
    let mut lines = vec![format!(
        "{} to {}: {} packets sent, {} lost; the reflector's own time is subtracted",
        if options.protocol == Protocol::Twamp { "TWAMP" } else { "STAMP" },
        options.to,
        measured.result.sent,
        measured.result.lost
    )];
    if let Some([there, back]) = &measured.result.each_direction {
        lines.push(format!(
            "lost in the forward direction: {}, in the reverse direction: {}",
            there.lost, back.lost
        ));
    }
    lines.extend(measured.result.validity.reasons.iter().map(|reason| format!("note: {reason}")));
    lines.join("\n")
}

/// The result in the form of the test.
fn result(options: &SenderOptions, measured: &MeasuredPackets) -> Value {
    // The packets with a reply, in the order of sending: their numbers are those that were not lost.
    let mut trips = measured.trips.clone();
    trips.sort_by_key(|trip| trip.sent_ns);
    let sent = measured.result.sent;
    let numbers = (0u32..).filter(|number| !measured.lost.contains_key(number));
    let ip = options.to.ip().to_string();
    let round_trips: Vec<Value> = numbers
        .zip(&trips)
        .map(|(number, trip)| json!({ "seq": number + 1, "ip": ip, "rtt": iso(rtt(trip)) }))
        .collect();
    let mut result = json!({
        "schema": 1, "succeeded": true, "roundtrips": round_trips,
        "sent": sent, "received": trips.len(), "lost": measured.result.lost,
        "loss": if sent > 0 { measured.result.lost as f64 / sent as f64 } else { 0.0 },
        "reorders": reordered(&measured.trips),
    });
    let seconds: Vec<f64> = trips.iter().map(|trip| rtt(trip).as_secs_f64()).collect();
    let (min, max) = (seconds.iter().copied().reduce(f64::min), seconds.iter().copied().reduce(f64::max));
    if let (Some(min), Some(max)) = (min, max) {
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        // Sample standard deviation, as in the test's other tools.
        let degrees = seconds.len().saturating_sub(1).max(1) as f64;
        let deviation = (seconds.iter().map(|rtt| (rtt - mean).powi(2)).sum::<f64>() / degrees).sqrt();
        for (name, value) in [("min", min), ("max", max), ("mean", mean), ("stddev", deviation)] {
            result[name] = iso(Duration::from_secs_f64(value)).into();
        }
    }
    result
}

fn rtt(trip: &RoundTripTimes) -> Duration {
    let ns = (trip.returned_ns - trip.sent_ns) - (trip.reflected_ns - trip.received_ns);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

fn iso(duration: Duration) -> String {
    IsoDuration(duration).to_string()
}

/// Packets that returned after one that was sent later (RFC 4737).
fn reordered(trips: &[RoundTripTimes]) -> usize {
    let mut newest = i64::MIN;
    trips
        .iter()
        .filter(|trip| {
            let is_late = trip.sent_ns < newest;
            newest = newest.max(trip.sent_ns);
            is_late
        })
        .count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn packets_with_replies_keep_their_numbers() {
        let trip = |at_ms: i64, rtt_ms: i64| RoundTripTimes {
            sent_ns: at_ms * 1_000_000,
            received_ns: (at_ms + 1) * 1_000_000,
            reflected_ns: (at_ms + 6) * 1_000_000,
            returned_ns: (at_ms + 5 + rtt_ms) * 1_000_000,
        };
        // Number 1 was lost; number 3 returned before number 2.
        let trips = vec![trip(0, 10), trip(30, 10), trip(20, 40)];
        let result = probe::estimate_delay(&trips, 4, 0.0);
        let measured = MeasuredPackets { result, trips, lost: BTreeMap::from([(1, 10_000_000)]) };
        let spec = json!({ "dest": "127.0.0.1", "protocol": "stamp" });
        let spec = Spec::read(spec.as_object().unwrap()).unwrap();
        let result = super::result(&sender(&spec).unwrap(), &measured);
        let numbers: Vec<&Value> =
            result["roundtrips"].as_array().unwrap().iter().map(|trip| &trip["seq"]).collect();
        assert_eq!(numbers, [&json!(1), &json!(3), &json!(4)]);
        assert_eq!(
            (&result["sent"], &result["received"], &result["lost"]),
            (&json!(4), &json!(3), &json!(1))
        );
        assert_eq!((&result["loss"], &result["reorders"]), (&json!(0.25), &json!(1)));
        assert_eq!((&result["min"], &result["max"]), (&json!("PT0.01S"), &json!("PT0.04S")));
        assert_eq!(result["mean"], "PT0.02S");
    }
}
