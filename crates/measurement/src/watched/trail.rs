//! The last seconds of a connection: for sparklines, and for the verdict.

use std::{collections::VecDeque, time::Duration};

use schema::{Cause, FlowSample, Limited};
use verdict::FlowContext;
use watch::TrackedConnection;

use super::flows;

/// Minimum spacing of points.
pub const SPACING: Duration = Duration::from_millis(50);
/// Maximum number of points: a sparkline's width, and enough for a verdict.
const MAX_POINTS: usize = 80;

/// The last seconds of the direction in which a connection carries more.
#[derive(Debug, Default)]
pub struct Trail {
    rows: VecDeque<FlowSample>,
    sends: bool,
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
            self.rows.clear();
            self.sends = sends;
        }
        // Nothing new in this sample.
        if self.rows.back().is_some_and(|last| last.time_us >= time_us) {
            return;
        }
        let mut row = FlowSample { time_us, ..FlowSample::default() };
        if sends {
            flows::sent_row(connection, other, &mut row);
        } else {
            // The sender's values are more informative than the receiver's.
            match other {
                Some(sender) => flows::sent_row(sender, Some(connection), &mut row),
                None => flows::received_row(connection, &mut row),
            }
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

    /// Share of the time of each limiting cause in these seconds; all zero if only the flow's receiver is watched.
    pub fn limited(&self) -> Limited {
        let mut rows: Vec<FlowSample> = self.rows.iter().cloned().collect();
        verdict::decide(&mut rows, &[], &FlowContext { unknown_path: true, ..FlowContext::default() });
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
