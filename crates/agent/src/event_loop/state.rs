//! The state of a running agent, which all parts of the loop share.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use reservation::{Now, Point, PointName, ReservationId};
use tokio::sync::{mpsc, oneshot};
use units::{Instant, Time};

use super::{
    alertmanager_state::AlertmanagerState, maintenance_schedule::MaintenanceSchedule, test_run::TestRun,
};
use crate::{
    CalendarFile, Config, Error, Members, StepObserver, TokenEntry, Tokens,
    archive::{Archive, Forwarder},
    clock::RemovalGuard,
    control::Reply,
    inbound::Inbound,
    metrics::MetricsPusher,
    network::Network,
    roles::SharedRoles,
    rules::Rules,
    test_row::micros,
};

/// Time between two attempts to send a result, or to request the address of a test's server.
pub(super) const REPEAT: Time = Time::from_secs(30);

/// The state of a running agent.
pub(crate) struct EventLoop {
    pub(super) config: Config,
    pub(super) file: CalendarFile,
    pub(super) point: Point,
    pub(super) archive: Archive,
    pub(super) forwarder: Option<Forwarder>,
    pub(super) members: Members,
    pub(super) rules: Rules,
    pub(super) roles: SharedRoles,
    pub(super) network: Arc<Network>,
    pub(super) inbox: mpsc::Sender<Inbound>,
    pub(super) runs: BTreeMap<ReservationId, TestRun>,
    pub(super) next_run: u64,
    /// When unconfirmed results are resent.
    pub(super) outbox_due: Option<Instant>,
    pub(super) maintenance: MaintenanceSchedule,
    pub(super) alertmanager: AlertmanagerState,
    /// The thread that pushes metrics.
    pub(super) pusher: Option<MetricsPusher>,
    pub(super) removal_guard: RemovalGuard,
    /// Whether the thread of the common archive may remove old results.
    pub(super) may_remove: Arc<AtomicBool>,
    /// Requests for calendars of other points.
    pub(super) requested_calendars: Vec<(PointName, oneshot::Sender<Reply>)>,
    pub(super) started: Instant,
    pub(super) observer: Arc<dyn StepObserver>,
}

impl EventLoop {
    pub(super) fn now(&self) -> Now {
        self.config.clock.now()
    }

    pub(super) fn is_authority(&self) -> bool {
        self.members.authority == self.config.name
    }

    /// The roles of this point, for its HTTP interface.
    pub fn roles(&self) -> SharedRoles {
        self.roles.clone()
    }

    /// Applies the roles of the configuration, and those of the tokens.
    pub(super) fn apply_roles(&mut self) {
        self.roles.set(self.config.roles.clone());
        let tokens = Tokens::open(&self.config.state).map(|tokens| tokens.entries().clone());
        let tokens = tokens.unwrap_or_else(|error| {
            tracing::warn!("roles of tokens are unknown: {error}");
            BTreeMap::new()
        });
        self.set_roles_in_rules(&tokens);
    }

    /// Replaces the roles in the rules by those of the configuration and of these tokens.
    pub(super) fn set_roles_in_rules(&mut self, tokens: &BTreeMap<String, TokenEntry>) {
        self.rules.set_roles(self.config.roles.assigned(&self.config.name, tokens));
    }

    /// Commits the archive's rows to the disk.
    pub(super) fn commit_archive(&mut self) -> Result<(), Error> {
        if self.archive.commit()? {
            self.wake_forwarder();
        }
        Ok(())
    }

    pub(super) fn wake_forwarder(&self) {
        if let Some(forwarder) = &self.forwarder {
            forwarder.wake();
        }
    }
}

/// UTC, microseconds since 1970.
pub(super) fn unix_us(now: Now) -> i64 {
    micros(now.utc.since_origin())
}
