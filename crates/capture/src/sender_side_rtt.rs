//! The sender-side round-trip time: between the capture point and the sender. It is missing from the time
//! between a segment and its ACK, as both pass the capture point.
//!
//! The handshake measures it, because no application delays the handshake. Later the time from an ACK to the
//! first data that echoes its timestamp (RFC 7323) is the sender-side round-trip time, queues included, plus
//! the time in which the sender had nothing to send. The silence before this data is an upper bound of that
//! idle time: a sender that was idle for some time sent nothing for at least as long. So the sender-side
//! round-trip time is at most the measured time, and at least the measured time minus the silence. If the two
//! bounds are close to each other (ACKs clock the sender), it is known. Otherwise the last known value
//! applies, limited by these bounds.

use std::collections::VecDeque;

/// Number of recent bounds that are combined.
const MAX_BOUNDS: usize = 8;
/// Bounds are narrow if the silence is at most 1/8 of the time, or at most [`NARROW_NS`].
const NARROW_FRACTION: u64 = 8;
/// Silence at which bounds are narrow in any case, nanoseconds.
const NARROW_NS: u64 = 50_000;

/// Estimates the sender-side round-trip time of one direction of a connection; see the module's
/// documentation. Times in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct SenderSideRtt {
    /// The time without queues: that of the handshake, or a smaller value measured since.
    unloaded: Option<u64>,
    /// The recent bounds, newest last.
    bounds: VecDeque<Bounds>,
    /// Whether the time is known: bounds were narrow, or the handshake was captured.
    is_known: bool,
    /// Whether bounds were narrow.
    is_tracked: bool,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    lower: u64,
    upper: u64,
}

impl Bounds {
    fn are_narrow(self) -> bool {
        self.upper - self.lower <= (self.upper / NARROW_FRACTION).max(NARROW_NS)
    }
}

impl SenderSideRtt {
    /// The time without queues; `None` if unknown.
    pub(crate) fn unloaded_ns(&self) -> Option<u64> {
        self.unloaded.filter(|_| self.is_known)
    }

    /// Whether it was tracked over time, queues included.
    pub(crate) fn is_tracked(&self) -> bool {
        self.is_tracked
    }

    /// Adds the time of a handshake. Only the first of a connection counts, because later segments may repeat
    /// its sequence number.
    pub(crate) fn add_handshake(&mut self, duration_ns: u64) {
        if !self.is_known {
            self.unloaded = Some(duration_ns);
            self.is_known = true;
        }
    }

    /// Adds a data segment that is the first to echo the timestamp of an ACK, which passed `since_ack_ns`
    /// ago. The sender's previous data passed `silent_ns` ago.
    pub(crate) fn add_echo(&mut self, since_ack_ns: u64, silent_ns: u64) {
        let bounds = Bounds { lower: since_ack_ns.saturating_sub(silent_ns), upper: since_ack_ns };
        if bounds.are_narrow() {
            (self.is_known, self.is_tracked) = (true, true);
            self.unloaded = Some(self.unloaded.map_or(bounds.upper, |min| min.min(bounds.upper)));
        } else if let Some(unloaded) = &mut self.unloaded {
            *unloaded = (*unloaded).min(bounds.upper);
        }
        if self.bounds.len() == MAX_BOUNDS {
            self.bounds.pop_front();
        }
        self.bounds.push_back(bounds);
    }

    /// The recent value; if it is unknown, the smallest possible one.
    pub(crate) fn current_ns(&self) -> u64 {
        let lower = self.bounds.iter().map(|bounds| bounds.lower).min().unwrap_or(0);
        let upper = self.bounds.iter().map(|bounds| bounds.upper).min().unwrap_or(u64::MAX);
        let narrow = self.bounds.iter().filter(|bounds| bounds.are_narrow()).map(|bounds| bounds.upper).min();
        match narrow {
            Some(narrow) => narrow.min(upper),
            None => self.unloaded.unwrap_or(0).max(lower).min(upper),
        }
    }
}
