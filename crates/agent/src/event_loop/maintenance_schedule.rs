//! When the tasks of maintenance are due.

use std::collections::BTreeMap;

use units::{Instant, Time};

use crate::archive::CauseChange;

/// When each task is due, steady clock.
pub(super) struct MaintenanceSchedule {
    pub retention_at: Instant,
    pub alert_at: Option<Instant>,
    pub is_alerting: bool,
    /// When the alerts that not all receivers have accepted are resent.
    pub retries: BTreeMap<CauseChange, Instant>,
    pub renew_at: Instant,
}

impl MaintenanceSchedule {
    pub fn new(started: Instant) -> Self {
        MaintenanceSchedule {
            retention_at: started + Time::from_secs(60),
            // Checks the changes that were found before the agent was killed.
            alert_at: Some(started),
            is_alerting: false,
            retries: BTreeMap::new(),
            renew_at: started,
        }
    }

    /// Lets the pending changes be checked at once.
    pub fn alert_now(&mut self, now: Instant) {
        self.alert_at = Some(now);
    }

    /// Lets the pending changes be checked at this instant at the latest.
    pub fn alert_before(&mut self, latest: Instant) {
        self.alert_at = Some(self.alert_at.map_or(latest, |at| at.min(latest)));
    }

    /// When the next task is due.
    pub fn due(&self) -> Instant {
        let alert = self.alert_at.filter(|_| !self.is_alerting);
        alert.into_iter().fold(self.retention_at.min(self.renew_at), Instant::min)
    }
}
