//! A connection that a watcher tracks: its latest sample, rates, and counters.

use crate::{
    BpfSample, Clocks, ConnectionCounters, Process, SocketSample, SocketState, WindowLimits,
    bpf::{RawBpfSample, SamplingPass},
};

/// A connection that a [`Watcher`](crate::Watcher) tracks.
#[derive(Debug, Clone)]
pub struct TrackedConnection {
    /// Name of the connection's network namespace; empty for the namespace of this process.
    pub namespace: String,
    /// The process that owns it; `None` if unknown (other users' processes are not visible without root).
    pub process: Option<Process>,
    /// The latest sample.
    pub sample: SocketSample,
    /// Time of the latest sample, CLOCK_MONOTONIC, ns.
    pub sampled_ns: u64,
    /// Time when the connection was first seen, CLOCK_MONOTONIC, ns.
    pub first_seen_ns: u64,
    /// Time when it was found closed, CLOCK_MONOTONIC, ns.
    pub closed_ns: Option<u64>,
    /// Rates between the two latest samples, bit/s: application bytes that the peer acknowledged, and
    /// application bytes received.
    pub rates_bps: Option<(f64, f64)>,
    /// Counters since it was first seen.
    pub counters: ConnectionCounters,
    /// The values from which the times of the latest sample are computed; `None` if eBPF does not sample the
    /// connection, and after it closed.
    pub clocks: Option<Clocks>,
    /// Limits of its windows; `None` if eBPF does not sample the connection.
    pub limits: Option<WindowLimits>,
}

impl TrackedConnection {
    pub(crate) fn new(
        namespace: String,
        process: Option<Process>,
        sample: SocketSample,
        now: u64,
        is_traced: bool,
    ) -> Self {
        let mut counters = ConnectionCounters::new(is_traced);
        counters.add_sample(now, &sample.info);
        TrackedConnection {
            namespace,
            process,
            sample,
            sampled_ns: now,
            first_seen_ns: now,
            closed_ns: None,
            rates_bps: None,
            counters,
            clocks: None,
            limits: None,
        }
    }

    /// The larger of its two rates, bit/s; 0 before the second sample.
    pub fn max_rate_bps(&self) -> f64 {
        self.rates_bps.map_or(0.0, |(sent, received)| sent.max(received))
    }

    /// Stores a sample of sock_diag.
    pub(crate) fn update_from_diag(&mut self, sample: &SocketSample, now: u64) {
        let before = self.byte_counts();
        self.sample = sample.clone();
        self.update_rates_and_counters(before, now);
    }

    /// Stores those members of a sample of sock_diag that eBPF does not report.
    pub(crate) fn update_identity(&mut self, sample: &SocketSample) {
        self.sample.congestion.clone_from(&sample.congestion);
        self.sample.congestion_info = sample.congestion_info;
        self.sample.tos = sample.tos;
        (self.sample.uid, self.sample.inode) = (sample.uid, sample.inode);
    }

    /// Stores a sample of eBPF.
    pub(crate) fn update_from_bpf(&mut self, sample: &RawBpfSample<'_>) {
        let before = self.byte_counts();
        self.clocks = Some(sample.copy_info(&mut self.sample.info));
        self.limits = Some(sample.limits());
        self.sample.memory = sample.memory();
        (self.sample.rqueue_bytes, self.sample.wqueue_bytes) = sample.queues_bytes();
        if let Some(state) = self.sample.info.state() {
            self.sample.state = SocketState(state);
        }
        // The first sample follows immediately after sock_diag found the connection: the interval is too
        // short for a rate.
        let before = if self.counters.samples > 1 { before } else { (None, None) };
        self.update_rates_and_counters(before, sample.time_ns());
    }

    /// Records that the connection is unchanged since its latest sample.
    pub(crate) fn update_unchanged(&mut self, pass: SamplingPass) {
        let Some(clocks) = &self.clocks else { return };
        clocks.set_times(pass.jiffies, pass.hz, &mut self.sample.info);
        if pass.time_ns > self.sampled_ns {
            self.rates_bps = Some((0.0, 0.0));
            self.sampled_ns = pass.time_ns;
        }
        self.counters.add_unchanged_sample(pass.time_ns);
    }

    /// Stores the sample that eBPF took when the connection closed.
    pub(crate) fn update_at_close(&mut self, sample: &BpfSample) {
        self.clocks = None;
        self.sample.info = sample.info;
        self.sample.memory = sample.memory;
        self.sample.wqueue_bytes = sample.wqueue_bytes;
        self.sampled_ns = sample.time_ns;
        self.counters.add_sample(sample.time_ns, &sample.info);
    }

    /// Time for which the connection has been watched, until its last sample, us.
    pub fn watched_us(&self) -> u64 {
        self.sampled_ns.saturating_sub(self.first_seen_ns) / 1000
    }

    /// Bytes acknowledged and received so far.
    fn byte_counts(&self) -> (Option<u64>, Option<u64>) {
        (self.sample.info.bytes_acked(), self.sample.info.bytes_received())
    }

    fn update_rates_and_counters(&mut self, before: (Option<u64>, Option<u64>), now: u64) {
        let span_s = now.saturating_sub(self.sampled_ns) as f64 * 1e-9;
        let rate =
            |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?) as f64 * 8.0 / span_s);
        let (acked, received) = self.byte_counts();
        if span_s > 0.0 {
            self.rates_bps = rate(before.0, acked).zip(rate(before.1, received));
        }
        self.sampled_ns = now;
        self.counters.add_sample(now, &self.sample.info);
    }
}
