//! A flow of a record as an iperf3 stream: samples become intervals, the summary becomes the end of the test.

use iperf3::report::{Datagrams, Protocol, StreamEnd, StreamInterval, StreamTotals, TcpState, TcpSummary};
use schema::{FlowKind, FlowSample, FlowSummary};

/// IPv4 and TCP headers with timestamps, bytes.
const HEADERS_BYTES: u64 = 52;

/// A flow as a stream, with its rows.
pub struct Stream<'a> {
    /// Its number in iperf3's document.
    pub id: u32,
    /// Its summary.
    pub flow: &'a FlowSummary,
    /// Whether the client sends.
    pub forward: bool,
    rows: Vec<&'a FlowSample>,
    /// Payload bytes received until each row's time, seconds.
    received: Vec<(f64, f64)>,
    duration_s: f64,
}

impl<'a> Stream<'a> {
    /// The stream of a flow in a run of this duration.
    pub fn of(flow: &'a FlowSummary, forward: bool, rows: &'a [FlowSample], duration_s: f64) -> Self {
        let own = rows.iter().filter(|row| row.flow == flow.name).enumerate();
        // The first row begins the first interval. Rows at ACKs have neither a goodput nor counts.
        let rows: Vec<&FlowSample> =
            own.filter(|(index, row)| *index == 0 || row.goodput_bps.is_some()).map(|(_, row)| row).collect();
        let (mut received, mut bytes, mut last_s) = (vec![(0.0, 0.0)], 0.0, 0.0);
        for row in &rows {
            let time_s = row.time_us as f64 * 1e-6;
            bytes += row.goodput_bps.unwrap_or(0) as f64 / 8.0 * (time_s - last_s);
            received.push((time_s, bytes));
            last_s = time_s;
        }
        Stream { id: 0, flow, forward, rows, received, duration_s }
    }

    /// Its protocol.
    pub fn protocol(&self) -> Protocol {
        if self.flow.kind == FlowKind::Udp { Protocol::Udp } else { Protocol::Tcp }
    }

    /// Bytes received until a time, interpolated between rows.
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

    /// Its statistics of an interval.
    pub fn interval(&self, (start_s, end_s): (f64, f64)) -> StreamInterval {
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
            // Differences of rounded counts, so that intervals add up to the total.
            bytes: (self.received_at(end_s).round() - self.received_at(start_s).round()).max(0.0) as u64,
            omitted: false,
            tcp,
            udp,
        }
    }

    /// Its statistics of the whole test.
    pub fn end(&self) -> StreamEnd {
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
        let account = |bytes, udp| StreamTotals { start_s: 0.0, end_s: self.duration_s, bytes, udp };
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
                reorder: 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_at_acks_change_neither_bytes_nor_counts() {
        let flow = FlowSummary { name: "f".into(), ..FlowSummary::default() };
        let sample = |i: i64| FlowSample {
            time_us: i * 10_000,
            flow: "f".into(),
            goodput_bps: (i > 0).then_some(8_000_000),
            total_retrans_segs: Some(i),
            snd_mss_bytes: Some(1000),
            snd_cwnd_segs: Some(10),
            bytes_sent: Some(i * 10_000),
            ..FlowSample::default()
        };
        let ack = |time_us: i64| FlowSample {
            time_us,
            flow: "f".into(),
            snd_mss_bytes: Some(1000),
            snd_cwnd_segs: Some(10),
            ..FlowSample::default()
        };
        let samples: Vec<FlowSample> = (0..=100).map(sample).collect();
        let with_acks: Vec<FlowSample> = samples
            .iter()
            .flat_map(|row| std::iter::once(row.clone()).chain((1..10).map(|n| ack(row.time_us + n * 1000))))
            .collect();
        let exported = |rows: &[FlowSample]| {
            let stream = Stream::of(&flow, true, rows, 1.0);
            let interval = stream.interval((0.5, 1.0));
            (
                interval.bytes,
                interval.tcp.unwrap().retransmits,
                stream.end().received.bytes,
                stream.end().sent.bytes,
            )
        };
        assert_eq!(exported(&samples), (500_000, 50, 1_000_000, 1_000_000));
        assert_eq!(exported(&with_acks), exported(&samples));
    }
}
