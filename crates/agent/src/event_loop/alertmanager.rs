//! Keeps the alerts at an Alertmanager consistent with the causes that limit the pairs.

use std::{collections::BTreeMap, thread};

use reservation::{Now, PointName};
use units::Time;

use super::state::{EventLoop, unix_us};
use crate::{
    Error,
    address::host_and_port,
    alertmanager::{AlertKey, Alertmanager, CauseAlert},
    cause,
    inbound::Inbound,
};

/// Interval at which alerts are resent. Alertmanager resolves an alert that it has not received for its
/// `resolve_timeout`, 5 min by default.
const RESEND_INTERVAL: Time = Time::from_secs(60);
/// Maximum age of the last test of an alert's pair, microseconds. After that, the cause is unknown: the pair
/// may no longer be tested. A weekly test may be a day late.
const MAX_TEST_AGE_US: i64 = 8 * 86_400_000_000;

impl EventLoop {
    /// Sends the alerts if one has begun or ended, or if they have to be resent.
    pub(super) fn run_alertmanager(&mut self, now: Now) -> Result<(), Error> {
        if self.alertmanager.due().is_none_or(|due| due > now.steady) {
            return Ok(());
        }
        let Some(receiver) = self.alertmanager.receiver.clone() else { return Ok(()) };
        let now_us = unix_us(now);
        let firing = self.firing_alerts(now_us)?;
        let page = self.page_address();
        let state = &mut self.alertmanager;
        state.checked_at = now.steady;
        state.check_at = Some(now.steady + RESEND_INTERVAL);
        let has_changed = state.known.update(firing, now_us);
        if state.known.is_empty() {
            return Ok(());
        }
        if !has_changed && now.steady < state.resend_at {
            state.check_at = Some(state.resend_at);
            return Ok(());
        }
        state.resend_at = now.steady + RESEND_INTERVAL;
        let documents = state.known.documents(page.as_deref());
        let inbox = self.inbox.clone();
        let body = move || {
            let error = send(&receiver, &documents);
            // Sending fails only if the agent has ended.
            let _ = inbox.blocking_send(Inbound::AlertmanagerReplied { error });
        };
        match thread::Builder::new().name("alertmanager".into()).spawn(body) {
            Ok(_) => state.is_sending = true,
            Err(error) => tracing::warn!("cannot start a thread for the alerts of Alertmanager: {error}"),
        }
        Ok(())
    }

    /// Handles the end of an attempt to send. After an error, all alerts are resent after
    /// [`RESEND_INTERVAL`].
    pub(super) fn on_alertmanager_replied(&mut self, error: Option<String>) {
        self.alertmanager.is_sending = false;
        match error {
            None => self.alertmanager.known.forget_ended(),
            Some(error) => tracing::warn!("alerts could not be sent: {error}"),
        }
    }

    /// The alerts of the current causes. A pair has an alert if its tests give no result, or less than the
    /// rate of the path, and if no user has acknowledged the cause or muted the pair.
    fn firing_alerts(&self, now_us: i64) -> Result<BTreeMap<AlertKey, CauseAlert>, Error> {
        let attention = self.archive.attention()?;
        let mut firing = BTreeMap::new();
        for pair in self.archive.pairs()? {
            let Some(change) = pair.cause else { continue };
            let is_member = self.members.address(&PointName(change.from.clone())).is_some();
            let tested_us =
                pair.conclusion.as_ref().map_or(change.since_us, |conclusion| conclusion.start_us);
            let is_silenced = attention.acknowledgement(&change.from, &change.to, change.since_us).is_some()
                || attention.muted_until(&change.from, &change.to, now_us).is_some();
            let is_old = now_us.saturating_sub(tested_us) > MAX_TEST_AGE_US;
            if cause::is_good(&change.cause) || !is_member || is_silenced || is_old {
                continue;
            }
            let key =
                AlertKey { from: change.from.clone(), to: change.to.clone(), cause: change.cause.clone() };
            let remedy = match self.alertmanager.known.firing(&key, change.since_us) {
                Some(CauseAlert { remedy: Some(remedy), .. }) => Some(remedy.clone()),
                _ => self.archive.remedy(&change)?,
            };
            let throughput = pair.throughput.as_ref();
            let alert = CauseAlert {
                since_us: change.since_us,
                goodput_bps: throughput.and_then(|newest| newest.goodput_bps),
                best_goodput_bps: pair.best_goodput_bps,
                problem: pair.conclusion.and_then(|conclusion| conclusion.reason),
                remedy,
            };
            firing.insert(key, alert);
        }
        Ok(firing)
    }

    /// The address of the point's page, if it has one.
    fn page_address(&self) -> Option<String> {
        let listen = self.config.http?.listen;
        if !listen.ip().is_unspecified() {
            return Some(format!("http://{listen}/"));
        }
        let (host, _) = host_and_port(&self.config.address)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Some(format!("http://{host}:{}/", listen.port()))
    }
}

/// Sends the alerts. Returns a message if that failed.
fn send(receiver: &Alertmanager, documents: &[Vec<u8>]) -> Option<String> {
    let error = receiver.send(documents).err()?;
    Some(format!("Alertmanager at {}: {error}", receiver.host()))
}
