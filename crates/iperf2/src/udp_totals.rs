//! Datagrams in the form of a report, for both ends.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datagrams::ReceiverCounters;
use iperf3::report::{Cpu, Datagrams, End, Interval, StreamEnd, StreamInterval, StreamTotals};

use crate::wire::ServerReport;

/// Now, nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A receiver's counters in a report's form.
pub(crate) fn datagrams(counters: &ReceiverCounters) -> Datagrams {
    Datagrams {
        packets: counters.expected(),
        lost: i64::try_from(counters.lost()).unwrap_or(i64::MAX),
        out_of_order: counters.reordered,
        jitter_s: counters.jitter_ns * 1e-9,
    }
}

/// The server's report of these counters.
pub(crate) fn server_report(counters: &ReceiverCounters, duration: Duration) -> ServerReport {
    ServerReport {
        bytes: counters.bytes,
        duration,
        lost: counters.lost(),
        out_of_order: counters.reordered,
        datagrams: counters.expected(),
        jitter: Duration::from_nanos(counters.jitter_ns as u64),
    }
}

/// The totals of a server's report.
pub(crate) fn totals(report: &ServerReport) -> StreamTotals {
    StreamTotals {
        start_s: 0.0,
        end_s: report.duration.as_secs_f64(),
        bytes: report.bytes,
        udp: Some(Datagrams {
            packets: report.datagrams,
            lost: i64::try_from(report.lost).unwrap_or(i64::MAX),
            out_of_order: report.out_of_order,
            jitter_s: report.jitter.as_secs_f64(),
        }),
    }
}

/// The end of a report without processor times.
pub(crate) fn end(streams: Vec<StreamEnd>) -> End {
    End {
        streams,
        cpu_local: Cpu::default(),
        cpu_remote: Cpu::default(),
        sender_congestion: None,
        receiver_congestion: None,
        file_bytes: None,
        server_output: None,
    }
}

/// Computes the intervals of streams from their totals.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    last: Vec<StreamTotals>,
    begin_s: f64,
}

impl Intervals {
    /// Ends the interval at `now_s`; `streams` has the number of each stream, whether this end sends on it,
    /// and its totals so far.
    pub(crate) fn next(&mut self, now_s: f64, streams: &[(u32, bool, StreamTotals)]) -> Interval {
        self.last.resize(streams.len(), StreamTotals::default());
        let start_s = std::mem::replace(&mut self.begin_s, now_s);
        let one = |((id, sender, now), last): (&(u32, bool, StreamTotals), &mut StreamTotals)| {
            let before = last.udp.unwrap_or_default();
            let udp = now.udp.map(|udp| Datagrams {
                packets: udp.packets.saturating_sub(before.packets),
                lost: udp.lost - before.lost,
                out_of_order: udp.out_of_order.saturating_sub(before.out_of_order),
                jitter_s: udp.jitter_s,
            });
            let bytes = now.bytes.saturating_sub(last.bytes);
            *last = *now;
            StreamInterval {
                id: *id,
                sender: *sender,
                start_s,
                end_s: now_s,
                bytes,
                omitted: false,
                tcp: None,
                udp,
            }
        };
        let streams = streams.iter().zip(&mut self.last).map(one).collect();
        Interval { start_s, end_s: now_s, streams }
    }

    /// Length of the current interval.
    pub(crate) fn open_s(&self, now_s: f64) -> f64 {
        now_s - self.begin_s
    }
}
