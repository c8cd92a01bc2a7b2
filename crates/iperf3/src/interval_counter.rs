//! Computes intervals and totals from snapshots of monotonic counters, and subtracts the omitted
//! beginning. Pure.

use crate::{
    report::{Datagrams, Interval, StreamInterval, StreamTotals, TcpState, TcpSummary},
    stream::StreamSnapshot,
};

/// Counts the intervals and totals of all streams of one end.
#[derive(Debug)]
pub(crate) struct IntervalCounter {
    streams: Vec<StreamCounter>,
    omitting: bool,
    /// Time 0 of the reported times, the beginning of the data or of the counted part; seconds since the data
    /// began.
    zero_s: f64,
    /// When the current interval began.
    begin_s: f64,
}

#[derive(Debug)]
struct StreamCounter {
    id: u32,
    sends: bool,
    /// At the beginning of the counted part.
    base: StreamSnapshot,
    /// At the beginning of the interval.
    last: StreamSnapshot,
    tcp: TcpExtremes,
}

/// Extremes and mean of TCP_INFO's values.
#[derive(Debug, Default)]
struct TcpExtremes {
    snapshots: u64,
    rtt_sum_us: u64,
    summary: TcpSummary,
}

impl IntervalCounter {
    /// A counter for `streams`: number, and whether this end sends on it. `omitting`: the beginning is
    /// omitted, until [`IntervalCounter::count_from`].
    pub(crate) fn new(streams: impl IntoIterator<Item = (u32, bool)>, omitting: bool) -> IntervalCounter {
        let stream = |(id, sends)| StreamCounter {
            id,
            sends,
            base: StreamSnapshot::default(),
            last: StreamSnapshot::default(),
            tcp: TcpExtremes::default(),
        };
        IntervalCounter {
            streams: streams.into_iter().map(stream).collect(),
            omitting,
            zero_s: 0.0,
            begin_s: 0.0,
        }
    }

    /// True before [`IntervalCounter::count_from`] of a test that omits its beginning.
    pub(crate) fn is_omitting(&self) -> bool {
        self.omitting
    }

    /// When the counted part began, seconds since the data began; 0 before that.
    pub(crate) fn zero_s(&self) -> f64 {
        self.zero_s
    }

    /// Duration of the current interval at `now_s`.
    pub(crate) fn open_s(&self, now_s: f64) -> f64 {
        now_s - self.begin_s
    }

    /// Ends the current interval at `now_s`, seconds since the data began, with one snapshot for each stream.
    pub(crate) fn interval(&mut self, now_s: f64, snapshots: &[StreamSnapshot]) -> Interval {
        let (start_s, end_s) = (self.begin_s - self.zero_s, now_s - self.zero_s);
        let omitted = self.omitting;
        self.begin_s = now_s;
        let one = |(stream, snapshot): (&mut StreamCounter, &StreamSnapshot)| {
            let interval = StreamInterval {
                id: stream.id,
                sender: stream.sends,
                start_s,
                end_s,
                bytes: snapshot.bytes.saturating_sub(stream.last.bytes),
                omitted,
                tcp: tcp_state(&stream.last, snapshot),
                udp: snapshot.udp.map(|udp| since(stream.last.udp.unwrap_or_default(), udp)),
            };
            stream.tcp.add(snapshot);
            stream.last = snapshot.clone();
            interval
        };
        let streams = self.streams.iter_mut().zip(snapshots).map(one).collect();
        Interval { start_s, end_s, streams }
    }

    /// Discards everything before `now_s`, and restarts the times there.
    pub(crate) fn count_from(&mut self, now_s: f64, snapshots: &[StreamSnapshot]) {
        self.omitting = false;
        (self.zero_s, self.begin_s) = (now_s, now_s);
        for (stream, snapshot) in self.streams.iter_mut().zip(snapshots) {
            stream.base = snapshot.clone();
            stream.last = snapshot.clone();
            stream.tcp = TcpExtremes::default();
        }
    }

    /// The totals of each stream at `now_s`.
    pub(crate) fn end(
        &mut self,
        now_s: f64,
        snapshots: &[StreamSnapshot],
    ) -> Vec<(StreamTotals, Option<TcpSummary>)> {
        let end_s = now_s - self.zero_s;
        let one = |(stream, snapshot): (&mut StreamCounter, &StreamSnapshot)| {
            if stream.tcp.snapshots == 0 {
                stream.tcp.add(snapshot);
            }
            let totals = StreamTotals {
                start_s: 0.0,
                end_s,
                bytes: snapshot.bytes.saturating_sub(stream.base.bytes),
                udp: snapshot.udp.map(|udp| since(stream.base.udp.unwrap_or_default(), udp)),
            };
            let retransmits =
                |snapshot: &StreamSnapshot| snapshot.tcp.as_ref().and_then(|tcp| tcp.total_retrans());
            let summary = (stream.sends && snapshot.tcp.is_some()).then(|| TcpSummary {
                retransmits: retransmits(snapshot)
                    .map(|total| u64::from(total.saturating_sub(retransmits(&stream.base).unwrap_or(0)))),
                mean_rtt_us: stream.tcp.rtt_sum_us / stream.tcp.snapshots.max(1),
                ..stream.tcp.summary
            });
            (totals, summary)
        };
        self.streams.iter_mut().zip(snapshots).map(one).collect()
    }

    /// Payload that this end had received when the counted part began.
    pub(crate) fn base_received(&self) -> u64 {
        self.streams.iter().filter(|stream| !stream.sends).map(|stream| stream.base.bytes).sum()
    }

    /// Datagrams of stream `index` in the omitted part.
    pub(crate) fn omitted(&self, index: usize) -> Datagrams {
        self.streams.get(index).and_then(|stream| stream.base.udp).unwrap_or_default()
    }
}

impl TcpExtremes {
    fn add(&mut self, snapshot: &StreamSnapshot) {
        let Some(state) = tcp_state(&StreamSnapshot::default(), snapshot) else { return };
        let summary = &mut self.summary;
        summary.reorder = state.reorder;
        summary.max_snd_cwnd_bytes = summary.max_snd_cwnd_bytes.max(state.snd_cwnd_bytes);
        summary.max_snd_wnd_bytes = summary.max_snd_wnd_bytes.max(state.snd_wnd_bytes);
        summary.max_rtt_us = summary.max_rtt_us.max(state.rtt_us);
        summary.min_rtt_us =
            if self.snapshots == 0 { state.rtt_us } else { summary.min_rtt_us.min(state.rtt_us) };
        self.rtt_sum_us += state.rtt_us;
        self.snapshots += 1;
    }
}

/// The kernel's current values, and the number of segments retransmitted since `before`.
fn tcp_state(before: &StreamSnapshot, now: &StreamSnapshot) -> Option<TcpState> {
    let tcp = now.tcp.as_ref()?;
    let wide = |value: Option<u32>| u64::from(value.unwrap_or(0));
    let retransmitted =
        |snapshot: &StreamSnapshot| snapshot.tcp.as_ref().map_or(0, |tcp| wide(tcp.total_retrans()));
    Some(TcpState {
        retransmits: retransmitted(now).saturating_sub(retransmitted(before)),
        snd_cwnd_bytes: wide(tcp.snd_cwnd()) * wide(tcp.snd_mss()),
        snd_wnd_bytes: wide(tcp.snd_wnd()),
        rtt_us: wide(tcp.rtt_us()),
        rttvar_us: wide(tcp.rttvar_us()),
        pmtu_bytes: wide(tcp.pmtu()),
        reorder: wide(tcp.reord_seen()),
    })
}

/// Counts since `before`, with the current jitter.
fn since(before: Datagrams, now: Datagrams) -> Datagrams {
    Datagrams {
        packets: now.packets.saturating_sub(before.packets),
        lost: now.lost - before.lost,
        out_of_order: now.out_of_order.saturating_sub(before.out_of_order),
        jitter_s: now.jitter_s,
    }
}

#[cfg(test)]
mod tests {
    use watch::TcpInfo;

    use super::*;

    /// A snapshot with these bytes, retransmissions and this round-trip time.
    fn snapshot(bytes: u64, retransmitted: u32, rtt_us: u32) -> StreamSnapshot {
        let mut info = [0; 240];
        info[16..20].copy_from_slice(&1448u32.to_ne_bytes());
        info[68..72].copy_from_slice(&rtt_us.to_ne_bytes());
        info[80..84].copy_from_slice(&10u32.to_ne_bytes());
        info[100..104].copy_from_slice(&retransmitted.to_ne_bytes());
        StreamSnapshot { bytes, tcp: Some(TcpInfo::from_bytes(&info)), udp: None }
    }

    #[test]
    fn interval_values_are_differences_of_snapshots() {
        let mut counter = IntervalCounter::new([(1, true)], false);
        let first = counter.interval(1.0, &[snapshot(1000, 2, 300)]);
        let second = counter.interval(2.5, &[snapshot(1600, 5, 100)]);
        assert_eq!((first.streams[0].bytes, second.streams[0].bytes), (1000, 600));
        assert_eq!((second.start_s, second.end_s), (1.0, 2.5));
        let state = second.streams[0].tcp.unwrap();
        assert_eq!((state.retransmits, state.snd_cwnd_bytes, state.rtt_us), (3, 14_480, 100));
        let (totals, summary) = counter.end(3.0, &[snapshot(2000, 6, 100)])[0];
        assert_eq!((totals.bytes, totals.end_s), (2000, 3.0));
        let summary = summary.unwrap();
        assert_eq!(summary.retransmits, Some(6));
        assert_eq!((summary.min_rtt_us, summary.mean_rtt_us, summary.max_rtt_us), (100, 200, 300));
    }

    #[test]
    fn the_omitted_part_is_not_counted() {
        let mut counter = IntervalCounter::new([(1, true), (3, false)], true);
        let receiver = |bytes| StreamSnapshot { bytes, ..StreamSnapshot::default() };
        let omitted = counter.interval(1.0, &[snapshot(1000, 2, 900), receiver(500)]);
        assert!(omitted.streams.iter().all(|stream| stream.omitted));
        counter.count_from(1.0, &[snapshot(1000, 2, 900), receiver(500)]);
        let counted = counter.interval(2.0, &[snapshot(3000, 3, 100), receiver(700)]);
        assert_eq!((counted.start_s, counted.end_s), (0.0, 1.0));
        assert_eq!((counted.streams[0].bytes, counted.streams[1].bytes), (2000, 200));
        assert!(!counted.streams[0].omitted);
        let end = counter.end(2.0, &[snapshot(3000, 3, 100), receiver(700)]);
        assert_eq!((end[0].0.bytes, end[0].0.end_s), (2000, 1.0));
        assert_eq!((end[0].1.unwrap().retransmits, end[0].1.unwrap().max_rtt_us), (Some(1), 100));
        assert_eq!((end[1].0.bytes, end[1].1), (200, None));
    }

    #[test]
    fn without_intervals_round_trip_times_come_from_the_last_snapshot() {
        let mut counter = IntervalCounter::new([(1, true)], false);
        let (_, summary) = counter.end(3.0, &[snapshot(2000, 6, 100)])[0];
        assert_eq!(summary.unwrap().mean_rtt_us, 100);
    }
}
