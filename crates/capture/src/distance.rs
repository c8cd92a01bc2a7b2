//! How far it is from where the packets were captured to the sender and back: what round-trip times from a segment to its ACK lack.
//!
//! The handshake takes as long as that: no application is between. Later the time from an ACK to the first data with its time
//! stamp (RFC 7323) is the distance, queues included, and the time that the sender had nothing to send. How much of it that can be
//! shows in the silence before this data: a sender that was idle for a while sent nothing for as long. So the distance is at
//! most the time, and at least the time without the silence. Where both are near each other (ACKs clock the sender) it is
//! known; else what is known from elsewhere holds, within these bounds.

use std::collections::VecDeque;

/// Of so many bounds the narrowest count.
const BOUNDS: usize = 8;
/// Bounds are near each other where the silence is at most one part in so many of the time,
const SILENT_PART: u64 = 8;
/// or this short, nanoseconds.
const SILENT_NS: u64 = 50_000;

/// See the module. Times in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    /// The handshake's, or a smaller one seen since.
    unloaded: Option<u64>,
    /// The newest last.
    bounds: VecDeque<Bounds>,
    /// One was narrow, or there was a handshake.
    is_known: bool,
    /// Some were narrow.
    is_followed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: u64,
    most: u64,
}

impl Bounds {
    fn are_narrow(self) -> bool {
        self.most - self.least <= (self.most / SILENT_PART).max(SILENT_NS)
    }
}

impl Distance {
    /// Without queues; `None` where it is not known.
    pub(crate) fn unloaded_ns(&self) -> Option<u64> {
        self.unloaded.filter(|_| self.is_known)
    }

    /// It was followed over time, queues included.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// The first of a connection counts: later segments may repeat its number.
    pub(crate) fn add_handshake(&mut self, took_ns: u64) {
        if !self.is_known {
            self.unloaded = Some(took_ns);
            self.is_known = true;
        }
    }

    /// Data passes that echoes for the first time an ACK of `since_ack_ns` ago; the sender's last data before was
    /// `silent_ns` ago.
    pub(crate) fn add_echo(&mut self, since_ack_ns: u64, silent_ns: u64) {
        let bounds = Bounds { least: since_ack_ns.saturating_sub(silent_ns), most: since_ack_ns };
        if bounds.are_narrow() {
            (self.is_known, self.is_followed) = (true, true);
            self.unloaded = Some(self.unloaded.map_or(bounds.most, |least| least.min(bounds.most)));
        } else if let Some(unloaded) = &mut self.unloaded {
            *unloaded = (*unloaded).min(bounds.most);
        }
        if self.bounds.len() == BOUNDS {
            self.bounds.pop_front();
        }
        self.bounds.push_back(bounds);
    }

    /// The distance of late; where nothing is known of it, the least possible.
    pub(crate) fn now_ns(&self) -> u64 {
        let least = self.bounds.iter().map(|bounds| bounds.least).min().unwrap_or(0);
        let most = self.bounds.iter().map(|bounds| bounds.most).min().unwrap_or(u64::MAX);
        let narrow = self.bounds.iter().filter(|bounds| bounds.are_narrow()).map(|bounds| bounds.most).min();
        match narrow {
            Some(narrow) => narrow.min(most),
            None => self.unloaded.unwrap_or(0).max(least).min(most),
        }
    }
}
