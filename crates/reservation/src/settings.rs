//! The timeouts of a point.

use units::Time;

/// The timeouts of a point. The defaults are for the Internet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a slot is held for a peer that does not confirm, and how long a lead waits for a peer.
    pub hold: Time,
    /// Time to the first repetition of a message without reply; it doubles each time.
    pub resend: Time,
    /// The longest time between repetitions.
    pub max_resend: Time,
    /// How long a lead waits after a peer did not reply until it proposes again.
    pub retry: Time,
    /// The part of the padding that covers the start of the programs. bwctl used 1 s.
    pub base_padding: Time,
    /// The largest padding: a clock that claims a large error would otherwise block the calendar.
    pub max_padding: Time,
    /// Round-trip time to a peer that has not been measured. pScheduler's `link-rtt` is the same.
    pub default_rtt: Time,
    /// How long before its start a recurring test is reserved.
    pub ahead: Time,
    /// The longest test.
    pub max_duration: Time,
    /// How far in the future a test may start.
    pub horizon: Time,
    /// How long a reservation that has ended remains known.
    pub retention: Time,
    /// Maximum number of reservations of another point that are remembered, ended or not: one in 12 s over
    /// the retention.
    pub max_known: u64,
    /// Maximum number of proposals without a pause.
    pub max_rounds: u32,
    /// Seed of randomised starts.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            hold: Time::from_secs(30),
            resend: Time::from_secs(2),
            max_resend: Time::from_secs(16),
            retry: Time::from_secs(60),
            base_padding: Time::from_secs(1),
            max_padding: Time::from_secs(60),
            default_rtt: Time::from_millis(200),
            ahead: Time::from_secs(600),
            max_duration: Time::from_secs(86_400),
            horizon: Time::from_secs(7 * 86_400),
            retention: Time::from_secs(7 * 86_400),
            max_known: 50_000,
            max_rounds: 32,
            seed: 1,
        }
    }
}
