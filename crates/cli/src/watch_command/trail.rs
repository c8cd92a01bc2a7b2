//! The last seconds of a connection: for sparklines, and for the verdict.

use std::{collections::VecDeque, time::Duration};

use schema::{Cause, FlowSample, Limited};
use verdict::FlowContext;
use watch::Followed;

use super::flows;

/// Points are so far apart at the least.
pub const SPACING: Duration = Duration::from_millis(50);
/// So many are kept: a sparkline's width, and a verdict's evidence.
const POINTS_MOST: usize = 80;

/// The last seconds of the direction in which a connection carries more.
#[derive(Debug, Default)]
pub struct Trail {
    rows: VecDeque<FlowSample>,
    sends: bool,
}

/// A value that is drawn as a sparkline.
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
    /// Takes a look in; `other` is the connection's other end, where that is followed too.
    pub fn add(&mut self, connection: &Followed, other: Option<&Followed>) {
        let time_us = (connection.looked_ns / 1000) as i64;
        let sends = flows::acked(connection) >= flows::received(connection);
        if sends != self.sends {
            self.rows.clear();
            self.sends = sends;
        }
        // Nothing new was seen.
        if self.rows.back().is_some_and(|last| last.time_us >= time_us) {
            return;
        }
        let mut row = FlowSample { time_us, ..FlowSample::default() };
        if sends {
            flows::sent_row(connection, other, &mut row);
        } else {
            // The sender tells more than the receiver does.
            match other {
                Some(sender) => flows::sent_row(sender, Some(connection), &mut row),
                None => flows::received_row(connection, &mut row),
            }
        }
        if self.rows.len() == POINTS_MOST {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }

    /// Whether the connection sends more than it receives.
    pub fn sends(&self) -> bool {
        self.sends
    }

    /// What limited the flow in these seconds, by its shares of the time; all zero where only its receiver is seen.
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

    /// What limits it most; `None` while nothing moves or only the receiver is seen.
    pub fn verdict(&self) -> Option<Cause> {
        let moves = self.rows.iter().any(|row| row.goodput_bps.is_some_and(|rate| rate > 0));
        if moves { self.limited().largest() } else { None }
    }

    /// The last `most` points of a value, oldest first.
    pub fn curve(&self, curve: Curve, most: usize) -> Vec<u64> {
        let value = |row: &FlowSample| match curve {
            Curve::Cwnd => row.snd_cwnd_segs,
            Curve::RoundTrip => row.srtt_us.or(row.rcv_rtt_us),
            Curve::Rate => row.goodput_bps,
        };
        let skipped = self.rows.len().saturating_sub(most);
        self.rows.iter().skip(skipped).map(|row| value(row).map_or(0, |v| v.max(0) as u64)).collect()
    }
}
