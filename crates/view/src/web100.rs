//! web100's counters of a connection, from the trace of its segments and ACKs: increases of the window in
//! slow start and in congestion avoidance (each increase, not each episode), duplicate ACKs, and kinds of
//! packets.
//!
//! Source of the definitions: RFC 4898. A trace of another program's connection has ACKs only.

use schema::{FlowSample, TraceKind, TraceRow};
use serde::Serialize;

use crate::text_table::{UNKNOWN, drop_columns, table};

/// Maximum number of parts of the run that the table shows.
const MAX_PARTS: i64 = 10;

/// The counters of one part of a run, or of all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TraceCounts {
    /// Data segments sent for the first time.
    #[serde(rename = "DataSegsOut")]
    pub data_segs_out: i64,
    /// Data segments sent for the first time with less than a full payload.
    pub short_segs_out: i64,
    /// Segments retransmitted.
    #[serde(rename = "SegsRetrans")]
    pub segs_retrans: i64,
    /// ACKs received.
    pub acks_in: i64,
    /// ACKs received with SACK blocks.
    #[serde(rename = "SACKsRcvd")]
    pub sacks_rcvd: i64,
    /// ACKs that acknowledge no new data and do not change the peer's window, while data is outstanding.
    #[serde(rename = "DupAcksIn")]
    pub dup_acks_in: i64,
    /// Increases of the congestion window below ssthresh.
    #[serde(rename = "SlowStart")]
    pub slow_start: i64,
    /// Increases of the congestion window at and above ssthresh.
    #[serde(rename = "CongAvoid")]
    pub cong_avoid: i64,
    /// Reductions of the congestion window.
    pub cwnd_reductions: i64,
    /// Instants at which data was sent.
    pub bursts: i64,
    /// Instants at which data was sent and an ACK arrived.
    pub bursts_on_ack: i64,
    /// Smallest and largest congestion window, segments.
    pub cwnd_segs: Option<(i64, i64)>,
    /// Smallest and largest ssthresh, segments; none while it is infinite.
    pub ssthresh_segs: Option<(i64, i64)>,
}

/// The counts of one traced flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowTraceCounts {
    /// The flow's name.
    pub flow: String,
    /// Payload of a full segment, bytes, if the record has it.
    pub mss_bytes: Option<i64>,
    /// Length of a part of the run, us.
    pub part_us: i64,
    /// Counts of the whole run.
    pub all: TraceCounts,
    /// Counts of its parts, in order of time.
    pub parts: Vec<TraceCounts>,
}

/// Counts the trace of each flow. `samples` are the run's rows of flows, for the segment sizes.
pub fn trace_counts(trace: &[TraceRow], samples: &[FlowSample]) -> Vec<FlowTraceCounts> {
    let mut flows: Vec<&str> = Vec::new();
    for row in trace {
        if !flows.contains(&row.flow.as_str()) {
            flows.push(&row.flow);
        }
    }
    flows.into_iter().map(|flow| count_flow(flow, trace, samples)).collect()
}

fn count_flow(flow: &str, trace: &[TraceRow], samples: &[FlowSample]) -> FlowTraceCounts {
    let mss_bytes = samples.iter().filter(|row| row.flow == flow).find_map(|row| row.snd_mss_bytes);
    let rows = || trace.iter().filter(|row| row.flow == flow);
    let last_us = rows().map(|row| row.time_us.max(0)).max().unwrap_or(0);
    let seconds = last_us / 1_000_000 + 1;
    let part_us = (seconds + MAX_PARTS - 1) / MAX_PARTS * 1_000_000;
    let mut all = Counter::default();
    let mut counted = FlowTraceCounts {
        flow: flow.to_owned(),
        mss_bytes,
        part_us,
        all: TraceCounts::default(),
        parts: vec![TraceCounts::default(); (last_us / part_us + 1) as usize],
    };
    for row in rows() {
        let part = &mut counted.parts[(row.time_us.max(0) / part_us) as usize];
        all.add(row, mss_bytes, part);
    }
    counted.all = counted.parts.iter().fold(TraceCounts::default(), |sum, part| sum.plus(part));
    counted
}

/// The state after the previous rows, with which the next row is compared.
#[derive(Debug, Default)]
struct Counter {
    /// Congestion window and ssthresh after the previous row, segments.
    window: Option<(i64, Option<i64>)>,
    /// Bytes acknowledged by the previous ACK, the peer's window then, and segments in flight after it.
    ack: Option<(Option<i64>, Option<i64>, Option<i64>)>,
    /// Time of the latest ACK and of the latest burst, us.
    ack_us: Option<i64>,
    burst_us: Option<i64>,
}

impl Counter {
    fn add(&mut self, row: &TraceRow, mss: Option<i64>, counts: &mut TraceCounts) {
        match row.kind {
            TraceKind::Sent => self.add_data(row, mss, counts),
            TraceKind::Retransmit => counts.segs_retrans += segments(row, mss).0,
            TraceKind::Ack | TraceKind::Sack => self.add_ack(row, counts),
        }
        let Some(cwnd) = row.snd_cwnd_segs else { return };
        if let Some((before, ssthresh)) = self.window.replace((cwnd, row.snd_ssthresh_segs)) {
            let slow_start = ssthresh.is_none_or(|ssthresh| before < ssthresh);
            counts.slow_start += i64::from(cwnd > before && slow_start);
            counts.cong_avoid += i64::from(cwnd > before && !slow_start);
            counts.cwnd_reductions += i64::from(cwnd < before);
        }
        counts.cwnd_segs = joined(counts.cwnd_segs, Some((cwnd, cwnd)));
        let ssthresh = row.snd_ssthresh_segs.map(|ssthresh| (ssthresh, ssthresh));
        counts.ssthresh_segs = joined(counts.ssthresh_segs, ssthresh);
    }

    fn add_data(&mut self, row: &TraceRow, mss: Option<i64>, counts: &mut TraceCounts) {
        let (segs, is_short) = segments(row, mss);
        counts.data_segs_out += segs;
        counts.short_segs_out += i64::from(is_short);
        if self.burst_us.replace(row.time_us) != Some(row.time_us) {
            counts.bursts += 1;
            counts.bursts_on_ack += i64::from(self.ack_us == Some(row.time_us));
        }
    }

    fn add_ack(&mut self, row: &TraceRow, counts: &mut TraceCounts) {
        counts.acks_in += 1;
        counts.sacks_rcvd += i64::from(row.kind == TraceKind::Sack);
        let (bytes, window) = (row.ack_bytes, row.snd_wnd_bytes);
        if let Some((before, window_before, in_flight)) = self.ack.replace((bytes, window, row.inflight_segs))
        {
            let repeats = bytes.is_some() && bytes == before && window == window_before;
            counts.dup_acks_in += i64::from(repeats && in_flight != Some(0));
        }
        self.ack_us = Some(row.time_us);
    }
}

impl TraceCounts {
    fn plus(self, other: &TraceCounts) -> TraceCounts {
        TraceCounts {
            data_segs_out: self.data_segs_out + other.data_segs_out,
            short_segs_out: self.short_segs_out + other.short_segs_out,
            segs_retrans: self.segs_retrans + other.segs_retrans,
            acks_in: self.acks_in + other.acks_in,
            sacks_rcvd: self.sacks_rcvd + other.sacks_rcvd,
            dup_acks_in: self.dup_acks_in + other.dup_acks_in,
            slow_start: self.slow_start + other.slow_start,
            cong_avoid: self.cong_avoid + other.cong_avoid,
            cwnd_reductions: self.cwnd_reductions + other.cwnd_reductions,
            bursts: self.bursts + other.bursts,
            bursts_on_ack: self.bursts_on_ack + other.bursts_on_ack,
            cwnd_segs: joined(self.cwnd_segs, other.cwnd_segs),
            ssthresh_segs: joined(self.ssthresh_segs, other.ssthresh_segs),
        }
    }
}

/// Number of segments of sent data, and whether one of them is short.
fn segments(row: &TraceRow, mss: Option<i64>) -> (i64, bool) {
    match (row.len_bytes, mss.filter(|mss| *mss > 0)) {
        (Some(len), Some(mss)) => ((len.max(1) as u64).div_ceil(mss as u64) as i64, len % mss != 0),
        _ => (1, false),
    }
}

fn joined(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// The counts as text: one row for each part of the run, and one for all of it.
pub fn trace_counts_table(flow: &FlowTraceCounts, width: Option<usize>) -> String {
    let header = [
        "FROM",
        "DataSegsOut",
        "SHORT",
        "SegsRetrans",
        "ACKS",
        "DupAcksIn",
        "SlowStart",
        "CongAvoid",
        "REDUCED",
        "CurCwnd",
        "CurSsthresh",
    ];
    let range = |range: Option<(i64, i64)>, without: &str| match range {
        None => without.to_owned(),
        Some((min, max)) if min == max => min.to_string(),
        Some((min, max)) => format!("{min} to {max}"),
    };
    let line = |from: String, counts: &TraceCounts| {
        vec![
            from,
            counts.data_segs_out.to_string(),
            counts.short_segs_out.to_string(),
            counts.segs_retrans.to_string(),
            counts.acks_in.to_string(),
            counts.dup_acks_in.to_string(),
            counts.slow_start.to_string(),
            counts.cong_avoid.to_string(),
            counts.cwnd_reductions.to_string(),
            range(counts.cwnd_segs, UNKNOWN),
            // A part without rows has neither.
            range(counts.ssthresh_segs, if counts.cwnd_segs.is_some() { "infinite" } else { UNKNOWN }),
        ]
    };
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (index, part) in flow.parts.iter().enumerate() {
        rows.push(line(format!("{} s", index as i64 * flow.part_us / 1_000_000), part));
    }
    rows.push(line("all".into(), &flow.all));
    let all = &flow.all;
    let mut text = format!("{}: web100's counters, from each segment and ACK\n", flow.flow);
    let mut right_aligned = vec![true; header.len()];
    drop_columns(&mut rows, &mut right_aligned, width, &["SegsRetrans", "SHORT", "REDUCED", "CurSsthresh"]);
    text.push_str(&table(&rows, &right_aligned));
    if all.bursts > 0 {
        let mean = all.data_segs_out as f64 / all.bursts as f64;
        let share = 100.0 * all.bursts_on_ack as f64 / all.bursts as f64;
        text.push_str(&format!(
            "data was sent at {} instants, {mean:.1} segments at each; at {share:.0} % of them an ACK arrived\n",
            all.bursts
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_us: i64, kind: TraceKind, bytes: i64, cwnd: i64, ssthresh: Option<i64>) -> TraceRow {
        let is_ack = matches!(kind, TraceKind::Ack | TraceKind::Sack);
        TraceRow {
            time_us,
            flow: "bulk".into(),
            kind,
            ack_bytes: is_ack.then_some(bytes),
            len_bytes: (!is_ack).then_some(bytes),
            snd_cwnd_segs: Some(cwnd),
            snd_ssthresh_segs: ssthresh,
            inflight_segs: Some(3),
            snd_wnd_bytes: Some(60_000),
            ..TraceRow::default()
        }
    }

    #[test]
    fn increases_duplicates_and_kinds_are_counted() {
        use TraceKind::{Ack, Retransmit, Sack, Sent};
        let trace = [
            row(100, Sent, 2000, 2, None),
            row(100, Sent, 500, 2, None),
            row(300, Ack, 1000, 3, None),
            row(300, Sent, 1000, 3, None),
            row(400, Ack, 2000, 5, None),
            row(500, Sack, 2000, 5, None),
            row(1_000_500, Sack, 2000, 4, Some(4)),
            row(1_000_500, Retransmit, 1000, 4, Some(4)),
            row(1_000_900, Ack, 3500, 5, Some(4)),
        ];
        let samples =
            [FlowSample { flow: "bulk".into(), snd_mss_bytes: Some(1000), ..FlowSample::default() }];
        let counted = trace_counts(&trace, &samples);
        let [flow] = counted.as_slice() else { panic!("{counted:?}") };
        let all = &flow.all;
        assert_eq!((all.data_segs_out, all.short_segs_out, all.segs_retrans), (4, 1, 1));
        assert_eq!((all.acks_in, all.sacks_rcvd, all.dup_acks_in), (5, 2, 2));
        // The increase by two segments counts as one increase.
        assert_eq!((all.slow_start, all.cong_avoid, all.cwnd_reductions), (2, 1, 1));
        assert_eq!((all.bursts, all.bursts_on_ack), (2, 1));
        assert_eq!((all.cwnd_segs, all.ssthresh_segs), (Some((2, 5)), Some((4, 4))));
        assert_eq!((flow.parts.len(), flow.parts[0].slow_start, flow.parts[1].cong_avoid), (2, 2, 1));
        let text = trace_counts_table(flow, None);
        assert!(text.contains("infinite") && text.contains("2 instants"), "{text}");
    }

    #[test]
    fn a_part_in_which_nothing_was_sent_has_no_windows() {
        let trace = [row(1, TraceKind::Ack, 10, 2, None), row(2_000_001, TraceKind::Ack, 20, 2, None)];
        let text = trace_counts_table(&trace_counts(&trace, &[])[0], None);
        let windows =
            |line: &str| line.split_whitespace().rev().take(2).map(str::to_owned).collect::<Vec<_>>();
        let found: Vec<_> = text.lines().skip(2).map(windows).collect();
        assert_eq!(found, [["infinite", "2"], ["-", "-"], ["infinite", "2"], ["infinite", "2"]], "{text}");
    }

    #[test]
    fn window_updates_and_acks_while_idle_are_not_duplicates() {
        let mut trace = [row(1, TraceKind::Ack, 10, 2, None), row(2, TraceKind::Ack, 10, 2, None)];
        trace[1].snd_wnd_bytes = Some(70_000);
        assert_eq!(trace_counts(&trace, &[])[0].all.dup_acks_in, 0);
        trace[1].snd_wnd_bytes = trace[0].snd_wnd_bytes;
        assert_eq!(trace_counts(&trace, &[])[0].all.dup_acks_in, 1);
        trace[0].inflight_segs = Some(0);
        assert_eq!(trace_counts(&trace, &[])[0].all.dup_acks_in, 0);
    }
}
