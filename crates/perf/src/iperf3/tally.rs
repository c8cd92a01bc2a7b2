//! From looks at counters that only grow to what a report tells: intervals, and what counts when the beginning was left out.
//! Pure.

use crate::{
    iperf3::stream::Look,
    report::{Account, Datagrams, Interval, StreamInterval, TcpState, TcpSummary},
};

/// The account of all streams of one end.
#[derive(Debug)]
pub(crate) struct Tally {
    streams: Vec<StreamTally>,
    omitting: bool,
    /// When what is now told began: the data, or the part that counts; seconds since the data began.
    zero_s: f64,
    /// When the interval that is under way began.
    begin_s: f64,
}

#[derive(Debug)]
struct StreamTally {
    id: u32,
    sends: bool,
    /// At the begin of what counts.
    base: Look,
    /// At the begin of the interval.
    last: Look,
    tcp: Extremes,
}

/// What TCP_INFO showed so far.
#[derive(Debug, Default)]
struct Extremes {
    looks: u64,
    rtt_sum_us: u64,
    summary: TcpSummary,
}

impl Tally {
    /// For streams by number and whether this end sends on them. `omitting`: the beginning does not count, until
    /// [`Tally::count_from`].
    pub(crate) fn new(streams: impl IntoIterator<Item = (u32, bool)>, omitting: bool) -> Tally {
        let stream = |(id, sends)| StreamTally {
            id,
            sends,
            base: Look::default(),
            last: Look::default(),
            tcp: Extremes::default(),
        };
        Tally { streams: streams.into_iter().map(stream).collect(), omitting, zero_s: 0.0, begin_s: 0.0 }
    }

    /// True before [`Tally::count_from`] of a test that leaves its beginning out.
    pub(crate) fn is_omitting(&self) -> bool {
        self.omitting
    }

    /// When what counts began, seconds since the data began; 0 before that.
    pub(crate) fn zero_s(&self) -> f64 {
        self.zero_s
    }

    /// How long the interval that is under way lasts at `now_s`.
    pub(crate) fn open_s(&self, now_s: f64) -> f64 {
        now_s - self.begin_s
    }

    /// Ends the interval under way at `now_s`, seconds since the data began, with one look for each stream.
    pub(crate) fn interval(&mut self, now_s: f64, looks: &[Look]) -> Interval {
        let (start_s, end_s) = (self.begin_s - self.zero_s, now_s - self.zero_s);
        let omitted = self.omitting;
        self.begin_s = now_s;
        let one = |(stream, look): (&mut StreamTally, &Look)| {
            let interval = StreamInterval {
                id: stream.id,
                sender: stream.sends,
                start_s,
                end_s,
                bytes: look.bytes.saturating_sub(stream.last.bytes),
                omitted,
                tcp: tcp_state(&stream.last, look),
                udp: look.udp.map(|udp| since(stream.last.udp.unwrap_or_default(), udp)),
            };
            stream.tcp.add(look);
            stream.last = look.clone();
            interval
        };
        let streams = self.streams.iter_mut().zip(looks).map(one).collect();
        Interval { start_s, end_s, streams }
    }

    /// What came before `now_s` does not count; times begin anew.
    pub(crate) fn count_from(&mut self, now_s: f64, looks: &[Look]) {
        self.omitting = false;
        (self.zero_s, self.begin_s) = (now_s, now_s);
        for (stream, look) in self.streams.iter_mut().zip(looks) {
            stream.base = look.clone();
            stream.last = look.clone();
            stream.tcp = Extremes::default();
        }
    }

    /// The whole of each stream, as of `now_s`.
    pub(crate) fn end(&mut self, now_s: f64, looks: &[Look]) -> Vec<(Account, Option<TcpSummary>)> {
        let end_s = now_s - self.zero_s;
        let one = |(stream, look): (&mut StreamTally, &Look)| {
            if stream.tcp.looks == 0 {
                stream.tcp.add(look);
            }
            let account = Account {
                start_s: 0.0,
                end_s,
                bytes: look.bytes.saturating_sub(stream.base.bytes),
                udp: look.udp.map(|udp| since(stream.base.udp.unwrap_or_default(), udp)),
            };
            let again = |look: &Look| look.tcp.as_ref().and_then(|tcp| tcp.total_retrans());
            let summary = (stream.sends && look.tcp.is_some()).then(|| TcpSummary {
                retransmits: again(look)
                    .map(|total| u64::from(total.saturating_sub(again(&stream.base).unwrap_or(0)))),
                mean_rtt_us: stream.tcp.rtt_sum_us / stream.tcp.looks.max(1),
                ..stream.tcp.summary
            });
            (account, summary)
        };
        self.streams.iter_mut().zip(looks).map(one).collect()
    }

    /// Payload that this end had received when what counts began.
    pub(crate) fn base_received(&self) -> u64 {
        self.streams.iter().filter(|stream| !stream.sends).map(|stream| stream.base.bytes).sum()
    }

    /// Datagrams of stream `index` that were left out.
    pub(crate) fn omitted(&self, index: usize) -> Datagrams {
        self.streams.get(index).and_then(|stream| stream.base.udp).unwrap_or_default()
    }
}

impl Extremes {
    fn add(&mut self, look: &Look) {
        let Some(state) = tcp_state(&Look::default(), look) else { return };
        let summary = &mut self.summary;
        summary.reorder = state.reorder;
        summary.max_snd_cwnd_bytes = summary.max_snd_cwnd_bytes.max(state.snd_cwnd_bytes);
        summary.max_snd_wnd_bytes = summary.max_snd_wnd_bytes.max(state.snd_wnd_bytes);
        summary.max_rtt_us = summary.max_rtt_us.max(state.rtt_us);
        summary.min_rtt_us =
            if self.looks == 0 { state.rtt_us } else { summary.min_rtt_us.min(state.rtt_us) };
        self.rtt_sum_us += state.rtt_us;
        self.looks += 1;
    }
}

/// What the kernel says now, and how many segments it has sent again since `before`.
fn tcp_state(before: &Look, now: &Look) -> Option<TcpState> {
    let tcp = now.tcp.as_ref()?;
    let wide = |value: Option<u32>| u64::from(value.unwrap_or(0));
    let retransmitted = |look: &Look| look.tcp.as_ref().map_or(0, |tcp| wide(tcp.total_retrans()));
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

/// Counts since `before`; the jitter is that of now.
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

    /// A look with these bytes, retransmissions and this round-trip time.
    fn look(bytes: u64, retransmitted: u32, rtt_us: u32) -> Look {
        let mut info = [0; 240];
        info[16..20].copy_from_slice(&1448u32.to_ne_bytes());
        info[68..72].copy_from_slice(&rtt_us.to_ne_bytes());
        info[80..84].copy_from_slice(&10u32.to_ne_bytes());
        info[100..104].copy_from_slice(&retransmitted.to_ne_bytes());
        Look { bytes, tcp: Some(TcpInfo::from_bytes(&info)), udp: None }
    }

    #[test]
    fn intervals_are_differences() {
        let mut tally = Tally::new([(1, true)], false);
        let first = tally.interval(1.0, &[look(1000, 2, 300)]);
        let second = tally.interval(2.5, &[look(1600, 5, 100)]);
        assert_eq!((first.streams[0].bytes, second.streams[0].bytes), (1000, 600));
        assert_eq!((second.start_s, second.end_s), (1.0, 2.5));
        let state = second.streams[0].tcp.unwrap();
        assert_eq!((state.retransmits, state.snd_cwnd_bytes, state.rtt_us), (3, 14_480, 100));
        let (account, summary) = tally.end(3.0, &[look(2000, 6, 100)])[0];
        assert_eq!((account.bytes, account.end_s), (2000, 3.0));
        let summary = summary.unwrap();
        assert_eq!(summary.retransmits, Some(6));
        assert_eq!((summary.min_rtt_us, summary.mean_rtt_us, summary.max_rtt_us), (100, 200, 300));
    }

    #[test]
    fn what_is_omitted_counts_nowhere() {
        let mut tally = Tally::new([(1, true), (3, false)], true);
        let receiver = |bytes| Look { bytes, ..Look::default() };
        let omitted = tally.interval(1.0, &[look(1000, 2, 900), receiver(500)]);
        assert!(omitted.streams.iter().all(|stream| stream.omitted));
        tally.count_from(1.0, &[look(1000, 2, 900), receiver(500)]);
        let counted = tally.interval(2.0, &[look(3000, 3, 100), receiver(700)]);
        assert_eq!((counted.start_s, counted.end_s), (0.0, 1.0));
        assert_eq!((counted.streams[0].bytes, counted.streams[1].bytes), (2000, 200));
        assert!(!counted.streams[0].omitted);
        let end = tally.end(2.0, &[look(3000, 3, 100), receiver(700)]);
        assert_eq!((end[0].0.bytes, end[0].0.end_s), (2000, 1.0));
        assert_eq!((end[0].1.unwrap().retransmits, end[0].1.unwrap().max_rtt_us), (Some(1), 100));
        assert_eq!((end[1].0.bytes, end[1].1), (200, None));
    }

    #[test]
    fn without_any_interval_the_end_is_looked_at() {
        let mut tally = Tally::new([(1, true)], false);
        let (_, summary) = tally.end(3.0, &[look(2000, 6, 100)])[0];
        assert_eq!(summary.unwrap().mean_rtt_us, 100);
    }
}
