//! The lead's part in a probe: the capacity of the narrowest link of the path, and the bandwidth that other
//! traffic leaves.

use std::time::{Duration, Instant};

use measurement::path::probe_available;
use probe::{AvailableBandwidthResult, Interval};
use probe_transport::{Error, ProbeSecret, Session, SessionOptions};
use units::BitRate;
use view::number;

use super::{Endpoint, Figures, LeadJob, Measured};

/// Timeout of the connection with the peer's server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The part of the slot for the fleet that is being sent when the time is over: up to 12 streams of one
/// second, because of the maximum load, and their reports.
const END_ALLOWANCE: Duration = Duration::from_secs(20);

/// Probes the path with at most `rate`, averaged over any second.
pub(super) fn probe_path(job: &LeadJob, endpoint: &Endpoint, rate: BitRate, time: Duration) -> Measured {
    let until = Instant::now() + time.saturating_sub(END_ALLOWANCE);
    match available(job, endpoint, rate, until) {
        Ok(Some(result)) => measured(&result),
        Ok(None) => Measured::failed(format!("a load of {rate} allows no useful train")),
        Err(error) => Measured::failed(error),
    }
}

fn available(
    job: &LeadJob,
    endpoint: &Endpoint,
    rate: BitRate,
    until: Instant,
) -> Result<Option<AvailableBandwidthResult>, Error> {
    let options = SessionOptions {
        host: job.host.clone(),
        port: endpoint.port,
        ip: None,
        max_rate: rate,
        mtu: None,
        timeout: CONNECT_TIMEOUT,
        secret: ProbeSecret::new(&endpoint.secret),
    };
    let mut session = Session::open(&options, &job.stop)?;
    probe_available(&mut session, until, &job.stop)
}

fn measured(result: &AvailableBandwidthResult) -> Measured {
    let reasons = result.validity.reasons.join("; ");
    let capacity = result.capacity.as_ref().and_then(|known| known.capacity_bps);
    let found = match (result.available_bps, capacity) {
        (Some(available), None) => format!("available bandwidth {}", interval_text(available)),
        (Some(available), Some(capacity)) => {
            format!("available bandwidth {}, capacity {}", interval_text(available), interval_text(capacity))
        }
        (None, Some(capacity)) => {
            format!("available bandwidth unknown, capacity {}", interval_text(capacity))
        }
        (None, None) => return Measured::failed(format!("the available bandwidth is unknown: {reasons}")),
    };
    let doubts = if result.validity.valid { String::new() } else { format!("; inconclusive: {reasons}") };
    let evidence = format!("{found}, of IP in packets of {} bytes{doubts}", result.packet_bytes);
    // A number in a series over time has no doubts beside it: an inconclusive one is in the evidence only.
    let conclusive = result.capacity.as_ref().filter(|known| known.validity.valid);
    let figures = Figures {
        capacity_bps: conclusive.and_then(|known| known.capacity_bps).map(|rate| rate.value),
        // On a path without free bandwidth, the estimate scatters around 0.
        available_bps: result.available_bps.filter(|_| result.validity.valid).map(|rate| rate.value.max(0.0)),
        evidence: Some(evidence),
        ..Figures::default()
    };
    Measured { figures, ..Measured::default() }
}

fn interval_text(rate: Interval) -> String {
    let [low, value, high] = [rate.low, rate.value, rate.high].map(number::rate);
    format!("{value} ({low} to {high})")
}

#[cfg(test)]
mod tests {
    use probe::{CapacityResult, Validity};

    use super::*;

    fn result(available_bps: Option<f64>, is_valid: bool) -> AvailableBandwidthResult {
        let reasons = vec!["streams agree".into()];
        AvailableBandwidthResult {
            available_bps: available_bps.map(|value| Interval::within(value, 0.1)),
            varies_bps: None,
            packet_bytes: 1500,
            fleets: 4,
            capacity: None,
            validity: Validity { valid: is_valid, reasons },
        }
    }

    #[test]
    fn the_evidence_has_the_available_bandwidth_and_doubts() {
        let evidence = |result: &AvailableBandwidthResult| measured(result).figures.evidence.unwrap();
        let valid = "available bandwidth 800 Mb/s (720 Mb/s to 880 Mb/s), of IP in packets of 1500 bytes";
        assert_eq!(evidence(&result(Some(800e6), true)), valid);
        assert_eq!(evidence(&result(Some(800e6), false)), format!("{valid}; inconclusive: streams agree"));
        let unknown = measured(&result(None, false));
        assert_eq!(unknown.error.as_deref(), Some("the available bandwidth is unknown: streams agree"));
        assert!(unknown.figures.evidence.is_none());
        // The time was over before the streams.
        let capacity = CapacityResult {
            capacity_bps: Some(Interval::within(1e9, 0.0)),
            peak_bps: None,
            bucket_bytes: None,
            cross_bps: None,
            packet_bytes: 1500,
            burst_packets: 64,
            validity: Validity::default(),
        };
        let cut = AvailableBandwidthResult { capacity: Some(capacity.clone()), ..result(None, false) };
        assert_eq!(
            evidence(&cut),
            "available bandwidth unknown, capacity 1.00 Gb/s (1.00 Gb/s to 1.00 Gb/s), of IP in packets of 1500 bytes; \
             inconclusive: streams agree"
        );
        // Only conclusive results are numbers.
        let figures = |result: &AvailableBandwidthResult| {
            let Figures { capacity_bps, available_bps, .. } = measured(result).figures;
            (capacity_bps, available_bps)
        };
        assert_eq!(figures(&cut), (None, None));
        assert_eq!(figures(&result(Some(800e6), false)), (None, None));
        assert_eq!(figures(&result(Some(800e6), true)), (None, Some(800e6)));
        assert_eq!(figures(&result(Some(-1e3), true)), (None, Some(0.0)));
        let validity = Validity { valid: true, reasons: Vec::new() };
        let known = Some(CapacityResult { validity, ..capacity });
        for (available_bps, is_valid, expected) in
            [(Some(800e6), true, Some(800e6)), (Some(800e6), false, None), (None, false, None)]
        {
            let all = AvailableBandwidthResult { capacity: known.clone(), ..result(available_bps, is_valid) };
            assert_eq!(figures(&all), (Some(1e9), expected), "{all:?}");
        }
    }
}
