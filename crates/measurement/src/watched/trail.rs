//! The samples of the last seconds of each connection, for sparklines and for the verdict.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use diagnosis::Change;
use schema::{Cause, FlowSample, Limited, ReceiverVerdict};
use verdict::{FlowContext, SendingDevice};
use watch::{SocketCookie, TrackedConnection, Watcher};

use super::{
    devices::{Devices, Sender},
    flows::{self, Pairs},
    history::History,
};

/// Minimum spacing of points.
pub const SPACING: Duration = Duration::from_millis(50);
/// Maximum number of points: a sparkline's width, and enough for a verdict.
const MAX_POINTS: usize = 80;
/// Interval between two reads of a device's counters.
const DEVICE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the histories of the busiest connections get new rows, microseconds, and the number of
/// these connections.
const HISTORY_INTERVAL_US: i64 = 1_000_000;
const MAX_HISTORIES: usize = 16;
/// Minimum goodput of a connection with a history, bit/s.
const MIN_HISTORY_BPS: i64 = 100_000;

/// The trails of all watched connections.
#[derive(Debug, Default)]
pub struct Trails {
    by_connection: BTreeMap<SocketCookie, Trail>,
    devices: Devices,
    /// Time of the first sample, and when the histories were extended, microseconds of CLOCK_MONOTONIC.
    begun_us: Option<i64>,
    extended_us: i64,
}

/// A change of the rate of a connection's path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathChange {
    /// Time since the watcher's first sample, seconds.
    pub at_s: f64,
    /// Goodput before, bit/s.
    pub before_bps: f64,
    /// Goodput after, bit/s.
    pub after_bps: f64,
    /// The change in words.
    pub sentence: String,
}

impl Trails {
    /// Adds the latest samples. Connections that the watcher no longer has are removed.
    pub fn update(&mut self, watcher: &Watcher) {
        let pairs = Pairs::of(watcher);
        for connection in watcher.connections() {
            let trail = self.by_connection.entry(connection.sample.cookie).or_default();
            trail.add(connection, pairs.other_end(connection));
        }
        if self.by_connection.len() > watcher.connections().count() {
            self.by_connection.retain(|cookie, _| watcher.connection(*cookie).is_some());
        }
        self.update_devices(watcher);
        self.extend_histories();
    }

    /// The changes of the rate of a connection's path, in order of time.
    pub fn path_changes(&self, connection: SocketCookie) -> Vec<PathChange> {
        let Some(trail) = self.by_connection.get(&connection) else { return Vec::new() };
        let begun_s = self.begun_us.unwrap_or(0) as f64 * 1e-6;
        let change = |change: &Change| PathChange {
            at_s: change.at.as_secs_f64() - begun_s,
            before_bps: change.before_bps,
            after_bps: change.after_bps,
            sentence: change.sentence(change.at.as_secs_f64() - begun_s),
        };
        trail.history.changes().iter().map(change).collect()
    }

    /// Adds the latest labelled rows of the busiest connections to their histories.
    fn extend_histories(&mut self) {
        let newest = self.by_connection.values().filter_map(|trail| Some(trail.rows.back()?.time_us)).max();
        let Some(now_us) = newest else { return };
        self.begun_us.get_or_insert(now_us);
        if now_us - self.extended_us < HISTORY_INTERVAL_US {
            return;
        }
        let since_us = std::mem::replace(&mut self.extended_us, now_us);
        let mut busiest: Vec<&mut Trail> =
            self.by_connection.values_mut().filter(|trail| trail.goodput_bps() >= MIN_HISTORY_BPS).collect();
        busiest.sort_by_key(|trail| std::cmp::Reverse(trail.goodput_bps()));
        for trail in busiest.into_iter().take(MAX_HISTORIES) {
            let rows = trail.labelled();
            let new = rows.partition_point(|row| row.time_us <= since_us);
            trail.history.add(&rows[new..]);
        }
    }

    /// The trail of a connection; `None` for an unknown one.
    pub fn get(&self, connection: SocketCookie) -> Option<&Trail> {
        self.by_connection.get(&connection)
    }

    /// Updates the drops of the devices of connections with retransmissions.
    fn update_devices(&mut self, watcher: &Watcher) {
        let mut retransmitted: BTreeMap<Sender, u64> = BTreeMap::new();
        for trail in self.by_connection.values() {
            let Some(sender) = &trail.sender else { continue };
            self.devices.add(watcher, sender);
            *retransmitted.entry(sender.clone()).or_default() += trail.retransmitted_segs();
        }
        for (sender, _) in retransmitted.iter().filter(|(_, count)| **count > 0) {
            self.devices.refresh(watcher, sender, DEVICE_INTERVAL);
        }
        for trail in self.by_connection.values_mut() {
            let Some(sender) = trail.sender.as_ref().filter(|_| trail.retransmitted_segs() > 0) else {
                continue;
            };
            let all = retransmitted.get(sender).copied().unwrap_or(0);
            trail.device = self.devices.of_flow(sender, trail.mss(), trail.retransmitted_segs(), all);
        }
    }
}

/// The last seconds of the direction in which a connection carries more.
#[derive(Debug, Default)]
pub struct Trail {
    rows: VecDeque<FlowSample>,
    sends: bool,
    /// The sender, if that end is watched.
    sender: Option<Sender>,
    /// Segments retransmitted before the connection was watched.
    retransmitted_before: Option<i64>,
    device: SendingDevice,
    history: History,
}

/// A value drawn as a sparkline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Congestion window, segments.
    Cwnd,
    /// Smoothed round-trip time, us.
    RoundTrip,
    /// Goodput, bit/s.
    Rate,
}

impl Trail {
    /// Adds a sample; `other` is the connection's other end, if it is watched too.
    pub fn add(&mut self, connection: &TrackedConnection, other: Option<&TrackedConnection>) {
        let time_us = (connection.sampled_ns / 1000) as i64;
        let sends = flows::acked(connection) >= flows::received(connection);
        if sends != self.sends {
            *self = Trail { sends, ..Trail::default() };
        }
        // The last sample of a closed connection has no rate.
        if connection.closed_ns.is_some() && !self.rows.is_empty() {
            return;
        }
        // Nothing new in this sample.
        if self.rows.back().is_some_and(|last| last.time_us >= time_us) {
            return;
        }
        let mut row = FlowSample { time_us, ..FlowSample::default() };
        self.sender = if sends { Some(connection) } else { other }
            .map(|sender| (sender.namespace.clone(), sender.sample.addresses.local.ip()));
        if sends {
            flows::sent_row(connection, other, &mut row);
        } else {
            // The sender's values are more informative than the receiver's.
            match other {
                Some(sender) => flows::sent_row(sender, Some(connection), &mut row),
                None => flows::received_row(connection, &mut row),
            }
        }
        if self.retransmitted_before.is_none() {
            self.retransmitted_before = row.total_retrans_segs;
        }
        if self.rows.len() == MAX_POINTS {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }

    /// Whether the connection sends more than it receives.
    pub fn sends(&self) -> bool {
        self.sends
    }

    /// Segments retransmitted since watching began.
    fn retransmitted_segs(&self) -> u64 {
        let now = self.rows.back().and_then(|row| row.total_retrans_segs);
        let more = now.zip(self.retransmitted_before).map_or(0, |(now, before)| now - before);
        u64::try_from(more).unwrap_or(0)
    }

    /// The segment size, bytes; 0 if unknown.
    fn mss(&self) -> u64 {
        let mss = self.rows.back().and_then(|row| row.snd_mss_bytes);
        mss.and_then(|mss| u64::try_from(mss).ok()).unwrap_or(0)
    }

    /// The latest goodput, bit/s.
    fn goodput_bps(&self) -> i64 {
        self.rows.back().and_then(|row| row.goodput_bps).unwrap_or(0)
    }

    /// The rows with what limited the connection.
    fn labelled(&self) -> Vec<FlowSample> {
        let mut rows: Vec<FlowSample> = self.rows.iter().cloned().collect();
        let device = self.device.clone();
        verdict::decide(
            &mut rows,
            &verdict::LinkRows::default(),
            &FlowContext { unknown_path: true, device, ..FlowContext::default() },
        );
        rows
    }

    /// Share of the time of each limiting cause in these seconds; all zero if only the flow's receiver is
    /// watched.
    pub fn limited(&self) -> Limited {
        let rows = self.labelled();
        let mut limited = Limited::default();
        let labels: Vec<Cause> = rows.iter().filter_map(|row| row.limited_by).collect();
        for cause in &labels {
            *limited.share_mut(*cause) += 1.0 / labels.len() as f64;
        }
        limited
    }

    /// The main limit; `None` without data or if only the receiver is watched.
    pub fn verdict(&self) -> Option<Cause> {
        let moves = self.rows.iter().any(|row| row.goodput_bps.is_some_and(|rate| rate > 0));
        if moves { self.limited().largest() } else { None }
    }

    /// The limit of the connection by its receiver's samples alone, if only the receiver is watched and data
    /// arrives.
    pub fn receiver_verdict(&self) -> Option<ReceiverVerdict> {
        let moves = self.rows.iter().any(|row| row.goodput_bps.is_some_and(|rate| rate > 0));
        if self.sends || self.sender.is_some() || !moves {
            return None;
        }
        let rows: Vec<FlowSample> = self.rows.iter().cloned().collect();
        verdict::judge_receiver(&rows, "")
    }

    /// The last `max_points` points of a value, oldest first.
    pub fn curve(&self, curve: Curve, max_points: usize) -> Vec<u64> {
        let value = |row: &FlowSample| match curve {
            Curve::Cwnd => row.snd_cwnd_segs,
            Curve::RoundTrip => row.srtt_us.or(row.rcv_rtt_us),
            Curve::Rate => row.goodput_bps,
        };
        let skipped = self.rows.len().saturating_sub(max_points);
        self.rows.iter().skip(skipped).map(|row| value(row).map_or(0, |v| v.max(0) as u64)).collect()
    }
}
