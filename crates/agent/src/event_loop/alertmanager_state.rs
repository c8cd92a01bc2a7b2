//! The alerts at an Alertmanager, and when they are checked and resent.

use units::{Instant, Time};

use crate::alertmanager::{Alertmanager, KnownAlerts};

/// Minimum interval between two checks of the causes: a check reads all pairs.
const MIN_CHECK_INTERVAL: Time = Time::from_secs(5);

/// The alerts of the configured Alertmanager.
pub(super) struct AlertmanagerState {
    pub(super) receiver: Option<Alertmanager>,
    pub(super) known: KnownAlerts,
    /// When the causes are checked next; `None` without an Alertmanager.
    pub(super) check_at: Option<Instant>,
    pub(super) checked_at: Instant,
    /// When the alerts are resent even if none has begun or ended.
    pub(super) resend_at: Instant,
    pub(super) is_sending: bool,
}

impl AlertmanagerState {
    pub fn new(receiver: Option<Alertmanager>, started: Instant) -> Self {
        AlertmanagerState {
            check_at: receiver.is_some().then_some(started),
            receiver,
            known: KnownAlerts::default(),
            checked_at: started,
            resend_at: started,
            is_sending: false,
        }
    }

    /// When the causes are checked next.
    pub fn due(&self) -> Option<Instant> {
        self.check_at.filter(|_| !self.is_sending)
    }

    /// Schedules a check, because a cause, an acknowledgement or a mute may have changed.
    pub fn check_soon(&mut self, now: Instant) {
        let earliest = now.max(self.checked_at + MIN_CHECK_INTERVAL);
        self.check_at = self.check_at.map(|at| at.min(earliest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_checked_soon_but_not_too_often() {
        let second = Instant::from_secs;
        let receiver = "http://127.0.0.1:9093".parse().ok();
        let mut state = AlertmanagerState::new(receiver, second(10));
        assert_eq!(state.due(), Some(second(10)), "causes that were found before the agent was started");
        (state.checked_at, state.check_at) = (second(10), Some(second(70)));
        state.check_soon(second(11));
        assert_eq!(state.due(), Some(second(15)));
        state.check_soon(second(12));
        assert_eq!(state.due(), Some(second(15)));
        (state.checked_at, state.check_at) = (second(15), Some(second(75)));
        state.check_soon(second(40));
        assert_eq!(state.due(), Some(second(40)));
        state.is_sending = true;
        assert_eq!(state.due(), None, "one request at a time");
        let mut none = AlertmanagerState::new(None, second(10));
        none.check_soon(second(11));
        assert_eq!(none.due(), None);
    }
}
