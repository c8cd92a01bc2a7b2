//! The lead's part in a trace: the hops of the path with their round-trip times, and the path MTU. Nothing
//! need run at the other end.

use std::time::{Duration, Instant};

use probe::{TraceResult, TracedHop};
use probe_transport::PathTrace;
use view::number;

use super::{Figures, LeadJob, Measured};

/// The verdict of a path that drops larger packets without an ICMP error, as a diagnosis names it.
const BLACK_HOLE: &str = "mtu_black_hole";

/// Traces the path within the slot.
pub(super) fn trace(job: &LeadJob, time: Duration) -> Measured {
    let until = Instant::now() + time;
    let found = probe_transport::resolve(&job.host, None).and_then(|to| {
        probe_transport::trace(to, until, &job.stop, &mut |step| tracing::debug!("{}: {step}", job.id))
    });
    match found {
        Ok(path) => measured(&job.to, &path),
        Err(error) => Measured::failed(error),
    }
}

fn measured(to: &str, path: &PathTrace) -> Measured {
    let host = path.hops.hops.last();
    if host.is_none() {
        return Measured::failed(format!("neither {to} nor a router of the path to it replied"));
    }
    let host = host.filter(|_| path.hops.reached);
    // A search that was cut off has found a lower bound only.
    let mtu = path.mtu.as_ref().filter(|_| path.is_mtu_complete);
    let is_black_hole = path.mtu.as_ref().is_some_and(|mtu| mtu.black_hole);
    let figures = Figures {
        min_rtt_us: host.and_then(|host| host.min_rtt_us),
        typical_rtt_us: host.and_then(|host| host.median_rtt_us),
        mtu_bytes: mtu.and_then(|mtu| mtu.mtu_bytes).map(u64::from),
        hops: host.map(|host| u64::from(host.hop)),
        verdict: is_black_hole.then(|| BLACK_HOLE.into()),
        evidence: Some(format!("{}; {}", mtu_text(to, path), hops_text(to, &path.hops))),
        ..Figures::default()
    };
    Measured { figures, ..Measured::default() }
}

fn mtu_text(to: &str, path: &PathTrace) -> String {
    let known = path.mtu.as_ref().and_then(|mtu| Some((mtu.mtu_bytes?, mtu.black_hole)));
    let Some((bytes, is_black_hole)) = known else {
        return format!("path MTU unknown: {to} did not reply in time");
    };
    let bound = if path.is_mtu_exact { "" } else { "at least " };
    let lost = if is_black_hole { ", and larger packets are lost without an ICMP error" } else { "" };
    format!("path MTU {bound}{bytes} bytes{lost}")
}

fn hops_text(to: &str, result: &TraceResult) -> String {
    let list: Vec<String> = result.hops.iter().map(hop_text).collect();
    let list = list.join(", ");
    let hops = match result.hops.len() {
        1 => "1 hop".into(),
        count => format!("{count} hops"),
    };
    match result.end_of_path {
        _ if result.reached => format!("{hops}: {list}"),
        Some(router) => format!("{router} reports that it does not forward packets to {to}; {hops}: {list}"),
        None if result.is_complete => format!("no reply after {hops}: {list}"),
        None => format!("the time was over after {hops}: {list}"),
    }
}

fn hop_text(hop: &TracedHop) -> String {
    let addresses: Vec<String> = hop.addresses.iter().map(ToString::to_string).collect();
    match hop.min_rtt_us {
        Some(us) => format!("{} {}", addresses.join(" or "), number::rounded_micros(us)),
        None => "no reply".into(),
    }
}

#[cfg(test)]
mod tests {
    use probe::{MtuOutcome, MtuResult, MtuSearch};

    use super::*;

    /// A path with these hops: the last byte of the address of each router, and its round-trip time,
    /// microseconds.
    fn path(hops: &[Option<(u8, f64)>], reached: bool) -> PathTrace {
        let hops = hops.iter().zip(1..).map(|(known, hop)| TracedHop {
            hop,
            addresses: known.iter().map(|(router, _)| [192, 0, 2, *router].into()).collect(),
            min_rtt_us: known.map(|(_, us)| us),
            median_rtt_us: known.map(|(_, us)| us + 1.0),
        });
        let hops = TraceResult { hops: hops.collect(), reached, end_of_path: None, is_complete: true };
        PathTrace { hops, mtu: None, is_mtu_exact: false, is_mtu_complete: false }
    }

    /// The search on a path of this MTU, with or without ICMP errors.
    fn search(mtu: u32, has_icmp: bool) -> MtuResult {
        let mut search = MtuSearch::new(1500);
        while let Some(size) = search.next_size() {
            search.add_outcome(match size {
                _ if size <= mtu => MtuOutcome::Replied,
                _ if has_icmp => MtuOutcome::TooBig(mtu),
                _ => MtuOutcome::NoReply,
            });
        }
        search.result()
    }

    #[test]
    fn the_evidence_has_the_mtu_and_the_hops() {
        let hops = [Some((1, 200.0)), None, Some((7, 12_400.0))];
        let mtu = Some(search(1400, true));
        let found = PathTrace { mtu, is_mtu_exact: true, is_mtu_complete: true, ..path(&hops, true) };
        let known = measured("b", &found);
        let Figures { min_rtt_us, typical_rtt_us, mtu_bytes, hops, verdict, evidence, .. } = known.figures;
        assert_eq!((min_rtt_us, typical_rtt_us, verdict), (Some(12_400.0), Some(12_401.0), None));
        assert_eq!((mtu_bytes, hops), (Some(1400), Some(3)));
        assert_eq!(
            evidence.as_deref(),
            Some("path MTU 1400 bytes; 3 hops: 192.0.2.1 200 \u{b5}s, no reply, 192.0.2.7 12.4 ms")
        );
        assert_eq!((known.error, known.record), (None, None));
    }

    #[test]
    fn a_black_hole_is_a_verdict() {
        let mtu = Some(search(1400, false));
        let path = path(&[Some((7, 90.0))], true);
        let found = measured("b", &PathTrace { mtu, is_mtu_exact: true, is_mtu_complete: true, ..path });
        assert_eq!(found.figures.verdict.as_deref(), Some("mtu_black_hole"));
        assert_eq!((found.figures.mtu_bytes, found.figures.hops), (Some(1400), Some(1)));
        let evidence = found.figures.evidence.unwrap();
        let mtu = "path MTU 1400 bytes, and larger packets are lost without an ICMP error";
        assert_eq!(evidence, format!("{mtu}; 1 hop: 192.0.2.7 90.0 \u{b5}s"));
    }

    #[test]
    fn incomplete_paths_say_so() {
        let silent = path(&[Some((1, 200.0))], false);
        let evidence = |path: &PathTrace| measured("b", path).figures.evidence.unwrap();
        let unknown = "path MTU unknown: b did not reply in time";
        assert_eq!(evidence(&silent), format!("{unknown}; no reply after 1 hop: 192.0.2.1 200 \u{b5}s"));
        let Figures { min_rtt_us, mtu_bytes, hops, .. } = measured("b", &silent).figures;
        assert_eq!(min_rtt_us, None, "a router's is not the host's");
        assert_eq!((mtu_bytes, hops), (None, None), "the path is longer");
        let hops = TraceResult { is_complete: false, ..silent.hops.clone() };
        assert!(evidence(&PathTrace { hops, ..silent.clone() }).contains("the time was over after 1 hop:"));
        let hops = TraceResult { end_of_path: Some([192, 0, 2, 1].into()), ..silent.hops.clone() };
        let refused = evidence(&PathTrace { hops, ..silent.clone() });
        assert!(refused.contains("192.0.2.1 reports that it does not forward packets to b"), "{refused}");
        // The search for the MTU was cut off, or has a limit.
        let mtu = Some(search(1500, true));
        let cut = PathTrace { mtu, ..path(&[Some((7, 90.0))], true) };
        let limited = PathTrace { is_mtu_complete: true, ..cut.clone() };
        for (path, mtu_bytes) in [(&cut, None), (&limited, Some(1500))] {
            assert!(evidence(path).starts_with("path MTU at least 1500 bytes; "), "{path:?}");
            assert_eq!(measured("b", path).figures.mtu_bytes, mtu_bytes, "{path:?}");
        }
        let error = measured("b", &path(&[], false)).error.unwrap();
        assert!(error.contains("neither b nor a router"), "{error}");
    }
}
