//! When the tasks of maintenance are due.

use std::collections::BTreeMap;

use units::Time;

use crate::archive::CauseChange;

/// When each task is due, steady clock.
pub(super) struct MaintenanceSchedule {
    pub retention_at: Time,
    pub alert_at: Option<Time>,
    pub is_alerting: bool,
    /// When the alerts that not all receivers have accepted are resent.
    pub retries: BTreeMap<CauseChange, Time>,
    pub renew_at: Time,
}

impl MaintenanceSchedule {
    pub fn new(started: Time) -> Self {
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
    pub fn alert_now(&mut self, now: Time) {
        self.alert_at = Some(now);
    }

    /// Lets the pending changes be checked at this time at the latest.
    pub fn alert_before(&mut self, time: Time) {
        self.alert_at = Some(self.alert_at.map_or(time, |at| at.min(time)));
    }

    /// When the next task is due.
    pub fn due(&self) -> Time {
        let alert = self.alert_at.filter(|_| !self.is_alerting);
        alert.into_iter().fold(self.retention_at.min(self.renew_at), Time::min)
    }
}
