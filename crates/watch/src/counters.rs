//! Counters that web100 had in the kernel and that Linux lacks: minima and maxima, times in each
//! phase, congestion signals.
//!
//! They are computed from samples and events. From samples alone the counts are lower bounds, because an
//! episode between two samples is not seen. With events they are exact.

use crate::{SocketEvent, SocketEventKind, TcpInfo, row::INFINITE_SSTHRESH};

/// How a sender adjusts its congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderPhase {
    /// The window is below ssthresh and doubles each round trip.
    SlowStart,
    /// The window is at or above ssthresh and grows slowly.
    CongestionAvoidance,
    /// The window is being reduced, or losses are being repaired (CWR, recovery or loss).
    Recovery,
}

/// The smallest and the largest value of a quantity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MinMax {
    /// Minimum and maximum; `None` without any value.
    pub range: Option<(u32, u32)>,
}

impl MinMax {
    fn add(&mut self, value: u32) {
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
    }
}

/// Counts, minima and maxima since the connection was first seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConnectionCounters {
    /// Whether every event since the connection was first seen is counted.
    pub is_traced: bool,
    /// Number of samples.
    pub samples: u64,
    /// Time with data to send before the first sample, us.
    pub busy_before_us: u64,
    /// Times that slow start began.
    pub slow_starts: u64,
    /// Times that congestion avoidance began.
    pub avoidances: u64,
    /// Increases of the window in slow start, as web100's SlowStart counts them.
    pub slow_start_growths: u64,
    /// Increases of the window in congestion avoidance, as web100's CongAvoid counts them.
    pub avoidance_growths: u64,
    /// Duplicate ACKs received; only where each ACK is traced.
    pub duplicate_acks: u64,
    /// Whether an ACK was traced; if one is, all are.
    pub traces_acks: bool,
    /// Times that fast recovery began (congestion state 3).
    pub recoveries: u64,
    /// Times that repair after a retransmission timeout began (congestion state 4).
    pub losses: u64,
    /// Times that the window was reduced without a loss (congestion state 2).
    pub reductions: u64,
    /// Time in each phase, us: slow start, congestion avoidance, recovery.
    pub phase_us: [u64; 3],
    /// Congestion window in slow start, segments.
    pub slow_start_cwnd: MinMax,
    /// Congestion window in congestion avoidance, segments.
    pub avoidance_cwnd: MinMax,
    /// Slow-start threshold, segments, once a loss has set one.
    pub ssthresh: MinMax,
    /// Segments in flight.
    pub in_flight: MinMax,
    /// Retransmission timeout, us.
    pub rto_us: MinMax,
    /// The peer's receive window, bytes.
    pub snd_wnd: MinMax,
    /// Times that the peer's receive window closed.
    pub zero_windows_received: u64,
    /// Times that our receive window closed.
    pub zero_windows_sent: u64,
    /// Smoothed round-trip time, us.
    pub srtt_us: MinMax,
    /// Round-trip samples, us; only where round trips are traced.
    pub round_trip_us: MinMax,
    /// Number of round-trip samples.
    pub round_trips: u64,
    /// Sum of the round-trip samples, us.
    pub round_trips_sum_us: u64,
    /// The latest round-trip sample, us.
    pub last_round_trip_us: Option<u32>,
    /// Segments retransmitted, by events.
    pub retransmitted_segs: u64,
    phase: Option<SenderPhase>,
    phase_since_ns: u64,
    last_cwnd: Option<u32>,
    /// The peer's window when an ACK arrived that repeats an earlier one: that ACK is a duplicate if the next
    /// ACK finds the same window.
    repeated_at_window: Option<u32>,
    ca_state: u8,
    is_peer_window_closed: bool,
    is_our_window_closed: bool,
}

impl ConnectionCounters {
    /// Counters of a connection that is seen for the first time now.
    pub fn new(is_traced: bool) -> Self {
        ConnectionCounters { is_traced, ..ConnectionCounters::default() }
    }

    /// The sender's latest phase; `None` before it sent data.
    pub fn phase(&self) -> Option<SenderPhase> {
        self.phase
    }

    /// Counts a sample.
    pub fn add_sample(&mut self, time_ns: u64, info: &TcpInfo) {
        if self.samples == 0 {
            self.busy_before_us = info.busy_time_us().unwrap_or(0);
        }
        self.samples += 1;
        if let Some(rto) = info.rto_us() {
            self.rto_us.add(rto);
        }
        if let Some(in_flight) = info.in_flight() {
            self.in_flight.add(in_flight);
        }
        if let Some(srtt) = info.rtt_us().filter(|rtt| *rtt > 0) {
            self.srtt_us.add(srtt);
        }
        self.count_windows(info.snd_wnd(), info.rcv_wnd(), info.segs_in() > Some(0));
        if let (Some(state), Some(cwnd), Some(ssthresh)) =
            (info.ca_state(), info.snd_cwnd(), info.snd_ssthresh())
        {
            self.set_congestion_state(state);
            // Before the first data segment a connection has no phase.
            if info.data_segs_out().is_none_or(|sent| sent > 0) {
                self.update_phase(time_ns, cwnd, ssthresh);
            }
        }
    }

    /// Counts an unchanged sample.
    pub fn add_unchanged_sample(&mut self, time_ns: u64) {
        self.samples += 1;
        self.add_phase_time(time_ns);
    }

    /// Counts an event.
    pub fn add_event(&mut self, event: &SocketEvent) {
        match event.kind {
            SocketEventKind::RoundTrip(rtt_us) => {
                self.round_trip_us.add(rtt_us);
                self.round_trips += 1;
                self.round_trips_sum_us += u64::from(rtt_us);
                self.last_round_trip_us = Some(rtt_us);
                return;
            }
            SocketEventKind::CaState(state) => self.set_congestion_state(state),
            SocketEventKind::Retransmit(segments) => self.retransmitted_segs += u64::from(segments),
            SocketEventKind::Ack { repeats } => self.count_ack(repeats, event.snd_wnd),
            SocketEventKind::State { .. } => {}
        }
        if event.bytes_acked > 1 {
            self.in_flight.add(event.in_flight);
            self.count_windows(Some(event.snd_wnd), Some(event.rcv_wnd), true);
            self.update_phase(event.time_ns, event.snd_cwnd, event.snd_ssthresh);
        }
    }

    /// Counts an ACK. Whether a repeated ACK only changed the window shows when the next ACK arrives.
    fn count_ack(&mut self, repeats: bool, window_before: u32) {
        self.traces_acks = true;
        self.duplicate_acks += u64::from(self.repeated_at_window == Some(window_before));
        self.repeated_at_window = repeats.then_some(window_before);
    }

    fn set_congestion_state(&mut self, state: u8) {
        if state == self.ca_state {
            return;
        }
        match state {
            2 => self.reductions += 1,
            3 => self.recoveries += 1,
            4 => self.losses += 1,
            _ => {}
        }
        self.ca_state = state;
    }

    fn update_phase(&mut self, time_ns: u64, cwnd: u32, ssthresh: u32) {
        if ssthresh < INFINITE_SSTHRESH {
            self.ssthresh.add(ssthresh);
        }
        if self.last_cwnd.replace(cwnd).is_some_and(|last| last < cwnd) {
            match self.phase {
                Some(SenderPhase::SlowStart) => self.slow_start_growths += 1,
                Some(SenderPhase::CongestionAvoidance) => self.avoidance_growths += 1,
                _ => {}
            }
        }
        let phase = match (self.ca_state, cwnd < ssthresh) {
            (2.., _) => SenderPhase::Recovery,
            (_, true) => SenderPhase::SlowStart,
            (_, false) => SenderPhase::CongestionAvoidance,
        };
        match phase {
            SenderPhase::SlowStart => self.slow_start_cwnd.add(cwnd),
            SenderPhase::CongestionAvoidance => self.avoidance_cwnd.add(cwnd),
            SenderPhase::Recovery => {}
        }
        self.add_phase_time(time_ns);
        if self.phase != Some(phase) {
            match phase {
                SenderPhase::SlowStart => self.slow_starts += 1,
                SenderPhase::CongestionAvoidance => self.avoidances += 1,
                SenderPhase::Recovery => {}
            }
        }
        self.phase = Some(phase);
    }

    /// Adds the time since the previous call to the current phase.
    fn add_phase_time(&mut self, time_ns: u64) {
        let Some(phase) = self.phase else {
            self.phase_since_ns = time_ns.max(self.phase_since_ns);
            return;
        };
        let elapsed_us = time_ns.saturating_sub(self.phase_since_ns) / 1000;
        self.phase_us[phase as usize] += elapsed_us;
        // The rest of a microsecond counts in the next call: ACKs arrive every few microseconds.
        self.phase_since_ns += 1000 * elapsed_us;
    }

    fn count_windows(&mut self, received: Option<u32>, sent: Option<u32>, is_connected: bool) {
        if let Some(window) = received.filter(|_| is_connected) {
            self.snd_wnd.add(window);
            self.zero_windows_received += u64::from(window == 0 && !self.is_peer_window_closed);
            self.is_peer_window_closed = window == 0;
        }
        if let Some(window) = sent.filter(|_| is_connected) {
            self.zero_windows_sent += u64::from(window == 0 && !self.is_our_window_closed);
            self.is_our_window_closed = window == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(ca_state: u8, cwnd: u32, ssthresh: u32, snd_wnd: u32) -> TcpInfo {
        let mut bytes = [0; 280];
        bytes[1] = ca_state;
        for (offset, value) in [(80, cwnd), (76, ssthresh), (228, snd_wnd), (156, 1), (140, 1), (232, 9)] {
            bytes[offset..offset + 4].copy_from_slice(&u32::to_ne_bytes(value));
        }
        TcpInfo::from_bytes(&bytes)
    }

    #[test]
    fn phases_and_their_times_are_counted() {
        let mut counters = ConnectionCounters::default();
        let infinite = INFINITE_SSTHRESH;
        for (ms, ca_state, cwnd, ssthresh, window) in [
            (0, 0, 10, infinite, 100),
            (10, 0, 40, infinite, 0),
            (20, 3, 30, 20, 0),
            (30, 0, 20, 20, 50),
            (40, 0, 21, 20, 50),
            (50, 4, 1, 10, 50),
            (60, 0, 5, 10, 0),
        ] {
            counters.add_sample(ms * 1_000_000, &info(ca_state, cwnd, ssthresh, window));
        }
        assert_eq!((counters.slow_starts, counters.avoidances), (2, 1));
        // The window was 10 to 40 segments in slow start, 20 to 21 in congestion avoidance, and 1 to 5 in
        // recovery.
        assert_eq!((counters.slow_start_growths, counters.avoidance_growths), (1, 1));
        assert_eq!((counters.recoveries, counters.losses, counters.reductions), (1, 1, 0));
        assert_eq!(counters.phase_us, [20_000, 20_000, 20_000]);
        assert_eq!(counters.slow_start_cwnd.range, Some((5, 40)));
        assert_eq!(counters.avoidance_cwnd.range, Some((20, 21)));
        assert_eq!(counters.ssthresh.range, Some((10, 20)));
        assert_eq!((counters.snd_wnd.range, counters.zero_windows_received), (Some((0, 100)), 2));
        assert_eq!(counters.phase(), Some(SenderPhase::SlowStart));
    }

    #[test]
    fn times_of_phases_are_not_rounded_down_at_each_sample() {
        let mut counters = ConnectionCounters::default();
        for number in 0..=1000 {
            counters.add_sample(1_000_000 + 1900 * number, &info(0, 10, INFINITE_SSTHRESH, 100));
        }
        assert_eq!(counters.phase_us, [1900, 0, 0]);
    }

    #[test]
    fn a_repeated_ack_is_a_duplicate_unless_it_changes_the_window() {
        let mut counters = ConnectionCounters::default();
        for (repeats, window_before) in
            [(false, 100), (true, 100), (true, 100), (true, 100), (false, 200), (true, 200), (false, 200)]
        {
            counters.count_ack(repeats, window_before);
        }
        // The third of the first three ACKs opened the window.
        assert_eq!(counters.duplicate_acks, 3);
    }
}
