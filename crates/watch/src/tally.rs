//! What web100 counted in the kernel and Linux does not: extremes, episodes and signals, made of looks and events.
//!
//! What looks alone show is a lower bound: an episode between two looks is not seen. With events every change is.

use crate::{Event, EventKind, TcpInfo, row::INFINITE_SSTHRESH};

/// What a sender is doing with its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The window is below ssthresh and doubles.
    SlowStart,
    /// It grows slowly.
    Avoidance,
    /// It is being reduced, or losses are being repaired.
    Recovery,
}

/// The largest and smallest of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The smallest and the largest, if any was seen.
    pub range: Option<(u32, u32)>,
}

impl Extremes {
    fn add(&mut self, value: u32) {
        let (least, most) = self.range.unwrap_or((value, value));
        self.range = Some((least.min(value), most.max(value)));
    }
}

/// Counts and extremes since the connection was first seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// Whether every event was seen since then.
    pub traced: bool,
    /// Looks that this is made of.
    pub looks: u64,
    /// Times that slow start began; that avoidance did.
    pub slow_starts: u64,
    /// Times that avoidance began.
    pub avoidances: u64,
    /// Times that fast recovery began (congestion state 3).
    pub recoveries: u64,
    /// Times that repair after a timeout began (congestion state 4).
    pub losses: u64,
    /// Times that the window was reduced without a loss (congestion state 2).
    pub reductions: u64,
    /// Time in each phase, us: slow start, avoidance, recovery.
    pub phase_us: [u64; 3],
    /// Congestion window in slow start, segments.
    pub slow_start_cwnd: Extremes,
    /// Congestion window in avoidance, segments.
    pub avoidance_cwnd: Extremes,
    /// Slow-start threshold once there was one, segments.
    pub ssthresh: Extremes,
    /// Segments in the network.
    pub in_flight: Extremes,
    /// Retransmission timeout, us.
    pub rto_us: Extremes,
    /// The peer's window, bytes.
    pub snd_wnd: Extremes,
    /// Times that the peer's window closed.
    pub zero_windows_received: u64,
    /// Times that our window closed.
    pub zero_windows_sent: u64,
    /// Smoothed round-trip time, us.
    pub srtt_us: Extremes,
    /// Each round trip, us; only where round trips are traced.
    pub round_trip_us: Extremes,
    /// Round trips traced.
    pub round_trips: u64,
    /// Their sum, us.
    pub round_trips_sum_us: u64,
    /// The latest of them, us.
    pub last_round_trip_us: Option<u32>,
    /// Segments that events said were sent again.
    pub retransmitted: u64,
    phase: Option<Phase>,
    phase_since_ns: u64,
    ca_state: u8,
    peer_window_shut: bool,
    our_window_shut: bool,
}

impl Tally {
    /// Of a connection that is seen for the first time now.
    pub fn new(traced: bool) -> Self {
        Tally { traced, ..Tally::default() }
    }

    /// What the sender was doing last.
    pub fn phase(&self) -> Option<Phase> {
        self.phase
    }

    /// Takes a look in.
    pub fn look(&mut self, time_ns: u64, info: &TcpInfo) {
        self.looks += 1;
        if let Some(rto) = info.rto_us() {
            self.rto_us.add(rto);
        }
        if let Some(in_flight) = info.in_flight() {
            self.in_flight.add(in_flight);
        }
        if let Some(srtt) = info.rtt_us().filter(|rtt| *rtt > 0) {
            self.srtt_us.add(srtt);
        }
        self.windows(info.snd_wnd(), info.rcv_wnd(), info.segs_in() > Some(0));
        if let (Some(state), Some(cwnd), Some(ssthresh)) =
            (info.ca_state(), info.snd_cwnd(), info.snd_ssthresh())
        {
            self.congestion_state(state);
            // A connection that has sent nothing has no phase.
            if info.data_segs_out().is_none_or(|sent| sent > 0) {
                self.window(time_ns, cwnd, ssthresh);
            }
        }
    }

    /// Takes in a look that found all as it was before.
    pub fn stay(&mut self, time_ns: u64) {
        self.looks += 1;
        self.pass_time(time_ns);
    }

    /// Takes an event in.
    pub fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::RoundTrip(rtt_us) => {
                self.round_trip_us.add(rtt_us);
                self.round_trips += 1;
                self.round_trips_sum_us += u64::from(rtt_us);
                self.last_round_trip_us = Some(rtt_us);
                return;
            }
            EventKind::CaState(state) => self.congestion_state(state),
            EventKind::Retransmit(segments) => self.retransmitted += u64::from(segments),
            EventKind::State { .. } | EventKind::Ack => {}
        }
        if event.bytes_acked > 1 {
            self.in_flight.add(event.in_flight);
            self.windows(Some(event.snd_wnd), Some(event.rcv_wnd), true);
            self.window(event.time_ns, event.snd_cwnd, event.snd_ssthresh);
        }
    }

    fn congestion_state(&mut self, state: u8) {
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

    fn window(&mut self, time_ns: u64, cwnd: u32, ssthresh: u32) {
        if ssthresh < INFINITE_SSTHRESH {
            self.ssthresh.add(ssthresh);
        }
        let phase = match (self.ca_state, cwnd < ssthresh) {
            (2.., _) => Phase::Recovery,
            (_, true) => Phase::SlowStart,
            (_, false) => Phase::Avoidance,
        };
        match phase {
            Phase::SlowStart => self.slow_start_cwnd.add(cwnd),
            Phase::Avoidance => self.avoidance_cwnd.add(cwnd),
            Phase::Recovery => {}
        }
        self.pass_time(time_ns);
        if self.phase != Some(phase) {
            match phase {
                Phase::SlowStart => self.slow_starts += 1,
                Phase::Avoidance => self.avoidances += 1,
                Phase::Recovery => {}
            }
        }
        self.phase = Some(phase);
    }

    /// The time until now was spent in the phase that it is in.
    fn pass_time(&mut self, time_ns: u64) {
        if let Some(phase) = self.phase {
            self.phase_us[phase as usize] += time_ns.saturating_sub(self.phase_since_ns) / 1000;
        }
        self.phase_since_ns = time_ns.max(self.phase_since_ns);
    }

    fn windows(&mut self, received: Option<u32>, sent: Option<u32>, connected: bool) {
        if let Some(window) = received.filter(|_| connected) {
            self.snd_wnd.add(window);
            self.zero_windows_received += u64::from(window == 0 && !self.peer_window_shut);
            self.peer_window_shut = window == 0;
        }
        if let Some(window) = sent.filter(|_| connected) {
            self.zero_windows_sent += u64::from(window == 0 && !self.our_window_shut);
            self.our_window_shut = window == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(ca_state: u8, cwnd: u32, ssthresh: u32, snd_wnd: u32) -> TcpInfo {
        let mut bytes = [0; 280];
        bytes[1] = ca_state;
        for (at, value) in [(80, cwnd), (76, ssthresh), (228, snd_wnd), (156, 1), (140, 1), (232, 9)] {
            bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
        }
        TcpInfo::from_bytes(&bytes)
    }

    #[test]
    fn a_connection_goes_through_its_phases() {
        let mut tally = Tally::default();
        let never = INFINITE_SSTHRESH;
        for (ms, ca_state, cwnd, ssthresh, window) in [
            (0, 0, 10, never, 100),
            (10, 0, 40, never, 0),
            (20, 3, 30, 20, 0),
            (30, 0, 20, 20, 50),
            (40, 0, 21, 20, 50),
            (50, 4, 1, 10, 50),
            (60, 0, 5, 10, 0),
        ] {
            tally.look(ms * 1_000_000, &info(ca_state, cwnd, ssthresh, window));
        }
        assert_eq!((tally.slow_starts, tally.avoidances), (2, 1));
        assert_eq!((tally.recoveries, tally.losses, tally.reductions), (1, 1, 0));
        assert_eq!(tally.phase_us, [20_000, 20_000, 20_000]);
        assert_eq!(tally.slow_start_cwnd.range, Some((5, 40)));
        assert_eq!(tally.avoidance_cwnd.range, Some((20, 21)));
        assert_eq!(tally.ssthresh.range, Some((10, 20)));
        assert_eq!((tally.snd_wnd.range, tally.zero_windows_received), (Some((0, 100)), 2));
        assert_eq!(tally.phase(), Some(Phase::SlowStart));
    }
}
