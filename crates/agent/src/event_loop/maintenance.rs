//! Periodic maintenance by the loop: retention of results, the entry in the directory, alerts, and renewal of
//! the point's certificate.

use std::{fs, path::Path, sync::atomic::Ordering, thread};

use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use reservation::{Now, PointName};
use units::{Instant, Time};

use super::{
    batch::Batch,
    state::{EventLoop, unix_us},
};
use crate::{
    Authority, Error, Identity,
    alert::{Alert, Sent},
    archive::{AlertProgress, CauseChange, Decision},
    frame::Frame,
    inbound::Inbound,
};

/// Interval at which the retention of results is applied.
const RETENTION_INTERVAL: Time = Time::from_secs(3600);
/// Pause between two steps of retention, in which the loop does other work.
const RETENTION_STEP_INTERVAL: Time = Time::from_millis(200);
/// Interval at which an alert is resent until all receivers have accepted it.
const ALERT_RETRY_INTERVAL: Time = Time::from_secs(60);
/// The end of a mute is checked at least this often.
const MUTE_CHECK_INTERVAL: Time = Time::from_secs(3600);
/// Maximum age of a change, since it was found, whose alert is still sent, microseconds.
const MAX_ALERT_AGE_US: i64 = 86_400_000_000;
/// Time between two checks of the certificate, and between two requests for a new one.
const RENEWAL_INTERVAL: Time = Time::from_secs(12 * 3600);

/// Removes a record if it is below `runs_dir`: results of other points name records on other hosts.
fn remove_record(runs_dir: &Path, record: &str) {
    let path = Path::new(record);
    let is_plain = !path.components().any(|part| matches!(part, std::path::Component::ParentDir));
    if is_plain
        && path.strip_prefix(runs_dir).is_ok_and(|inside| inside.components().count() == 2)
        && let Err(error) = fs::remove_dir_all(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove the record {record}: {error}");
    }
}

impl EventLoop {
    /// Runs the tasks that are due.
    pub(super) fn run_maintenance(&mut self, now: Now, batch: &mut Batch) -> Result<(), Error> {
        if self.maintenance.retention_at <= now.steady {
            let may_remove = self.may_remove.load(Ordering::Acquire);
            if !may_remove {
                tracing::info!(
                    "no old results are removed: the clock is not synchronized, or may have been stepped"
                );
            }
            let has_more = may_remove && self.apply_retention(now)?;
            if self.config.alerts.is_none() && !has_more {
                self.archive.settle_all_changes()?;
            }
            if !has_more {
                // The load may have changed, or the authority may have missed an announcement.
                self.announce(now, batch);
            }
            self.maintenance.retention_at =
                now.steady + if has_more { RETENTION_STEP_INTERVAL } else { RETENTION_INTERVAL };
        }
        if !self.maintenance.is_alerting && self.maintenance.alert_at.is_some_and(|at| at <= now.steady) {
            self.maintenance.alert_at = None;
            self.alert(now)?;
        }
        if self.maintenance.renew_at <= now.steady {
            self.maintenance.renew_at = now.steady + RENEWAL_INTERVAL;
            self.renew(batch)?;
        }
        Ok(())
    }

    /// Applies one step of the retention; returns whether more steps are due.
    fn apply_retention(&mut self, now: Now) -> Result<bool, Error> {
        let runs_dir = self.config.state.join("runs");
        let remove = |record: &str| remove_record(&runs_dir, record);
        let (retention, own) = (&self.config.retention, self.config.name.0.as_str());
        self.archive.apply_retention(unix_us(now), retention, own, remove)
    }

    /// A row was stored: a cause may have changed.
    pub(super) fn check_alerts(&mut self, now: Now) {
        if self.config.alerts.is_some() {
            self.maintenance.alert_at.get_or_insert(now.steady);
            self.alertmanager.check_soon(now.steady);
        }
    }

    /// The pending change whose alert is sent next. Changes whose alert was never sent come first, in their
    /// order. Changes that need no alert, or are too old for one, are settled here.
    fn next_change(&mut self, now: Now) -> Result<Option<(CauseChange, AlertProgress)>, Error> {
        let now_us = unix_us(now);
        let pending = self.archive.pending_changes()?;
        let attention = self.archive.attention()?;
        let decisions = attention.decide(&pending, now_us, |change| self.archive.cause_before(change))?;
        self.maintenance.retries.retain(|change, _| pending.contains(change));
        let mut first: Option<(Instant, CauseChange, AlertProgress)> = None;
        for (change, decision) in pending.into_iter().zip(decisions) {
            match decision {
                Decision::Send { reported_us } => {
                    let progress = self.archive.alert_progress(&change, now_us)?;
                    if now_us.saturating_sub(reported_us.max(progress.found_us)) > MAX_ALERT_AGE_US {
                        self.archive.settle_change(&change)?;
                        continue;
                    }
                    let at = self.maintenance.retries.get(&change).copied().unwrap_or(Instant::ZERO);
                    if first.as_ref().is_none_or(|(first, ..)| at < *first) {
                        first = Some((at, change, progress));
                    }
                }
                Decision::Settle => self.archive.settle_change(&change)?,
                Decision::Wait(until_us) => {
                    let wait_us = u64::try_from(until_us.saturating_sub(now_us)).unwrap_or(0);
                    // At most this interval: UTC, which decides when a mute ends, may be stepped.
                    let wait = Time::from_nanos(wait_us.saturating_mul(1000)).min(MUTE_CHECK_INTERVAL);
                    self.maintenance.alert_before(now.steady + wait);
                }
            }
        }
        Ok(match first {
            Some((at, ..)) if at > now.steady => {
                self.maintenance.alert_before(at);
                None
            }
            first => first.map(|(_, change, progress)| (change, progress)),
        })
    }

    /// Sends the alert of the next change on a thread.
    fn alert(&mut self, now: Now) -> Result<(), Error> {
        let Some(alerts) = self.config.alerts.clone() else {
            return self.archive.settle_all_changes();
        };
        let Some((change, progress)) = self.next_change(now)? else { return Ok(()) };
        let previous = self.archive.cause_before(&change)?;
        let alert = Alert {
            point: self.config.name.0.clone(),
            previous,
            goodput_bps: self.archive.last_goodput(&change)?,
            remedy: self.archive.remedy(&change)?,
            change,
        };
        tracing::info!("alert: {}", alert.text());
        let inbox = self.inbox.clone();
        let body = move || {
            let sent = alert.send(&alerts, progress.accepted);
            // Sending fails only if the agent has ended.
            let _ = inbox.blocking_send(Inbound::Alerted { change: alert.change, sent });
        };
        match thread::Builder::new().name("alert".into()).spawn(body) {
            Ok(_) => self.maintenance.is_alerting = true,
            Err(error) => {
                tracing::warn!("cannot start a thread for an alert: {error}");
                self.maintenance.alert_at = Some(now.steady + ALERT_RETRY_INTERVAL);
            }
        }
        Ok(())
    }

    /// Handles the end of an attempt to send the alert of a change. Alerts of other changes do not wait for
    /// the receivers that have not accepted this one.
    pub(super) fn on_alerted(&mut self, now: Now, change: CauseChange, sent: Sent) -> Result<(), Error> {
        self.maintenance.is_alerting = false;
        self.maintenance.alert_now(now.steady);
        let Some(error) = sent.error else { return self.archive.settle_change(&change) };
        tracing::warn!("an alert could not be sent: {error}");
        let now_us = unix_us(now);
        let AlertProgress { found_us, .. } = self.archive.alert_progress(&change, now_us)?;
        self.archive.set_alert_progress(&change, &AlertProgress { found_us, accepted: sent.accepted })?;
        self.maintenance.retries.insert(change, now.steady + ALERT_RETRY_INTERVAL);
        Ok(())
    }

    /// Renews the certificate if it expires soon: the authority signs its own certificate, other points
    /// request one from the authority.
    fn renew(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let identity = Identity::open(&self.config.state)?;
        if identity.is_valid_for(self.config.renew_before)? {
            return Ok(());
        }
        let public_key = identity.public_key()?;
        if self.is_authority() {
            let authority = Authority::open(&self.config.state);
            let authority =
                authority.ok_or_else(|| Error::Refused("the authority's key is missing".into()))?;
            let certificate = authority.renew(&self.config.name.0, &public_key)?;
            return self.set_certificate(certificate);
        }
        let authority = self.members.authority.clone();
        tracing::info!("the certificate expires soon; requesting a new one from {authority}");
        batch.frames.push((authority, Frame::Renew { public_key: HEXLOWER.encode(&public_key) }));
        Ok(())
    }

    /// Authority: a member requests a new certificate for its name. The connection is authenticated, so no
    /// other name can be requested.
    pub(super) fn on_renew(
        &mut self,
        from: &PointName,
        public_key: &str,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let authority = Authority::open(&self.config.state).filter(|_| self.is_authority());
        let public_key = HEXLOWER_PERMISSIVE.decode(public_key.as_bytes());
        let (Some(authority), Ok(public_key)) = (authority, public_key) else { return Ok(()) };
        if self.members.address(from).is_none() {
            return Ok(());
        }
        match authority.renew(&from.0, &public_key) {
            Ok(certificate) => {
                tracing::info!("sending a new certificate to {from}");
                let certificate = STANDARD.encode(certificate);
                batch.frames.push((from.clone(), Frame::Renewed { certificate }));
            }
            Err(Error::Refused(text)) => tracing::warn!("refusing a new certificate to {from}: {text}"),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The authority has sent a new certificate.
    pub(super) fn on_renewed(&mut self, from: &PointName, certificate: &str) -> Result<(), Error> {
        if *from != self.members.authority {
            return Ok(());
        }
        let Ok(certificate) = STANDARD.decode(certificate) else { return Ok(()) };
        match self.set_certificate(certificate) {
            // The new certificate is not for this point and its key: the present one remains in use.
            Err(Error::Tls { operation, cause }) => {
                tracing::warn!("the certificate from {from} is unusable: cannot {operation}: {cause}");
                Ok(())
            }
            other => other,
        }
    }

    fn set_certificate(&mut self, certificate: Vec<u8>) -> Result<(), Error> {
        let identity = Identity::open(&self.config.state)?.renewed(certificate)?;
        identity.replace_certificate(&self.config.state)?;
        self.network.set_identity(&identity)?;
        tracing::info!("the point has a new certificate");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_of_the_point_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let runs = root.path().join("runs");
        let own = runs.join("test-x/1");
        let other = root.path().join("other/test-x/1");
        for path in [&own, &other] {
            fs::create_dir_all(path).unwrap();
        }
        let escape = runs.join("../other");
        for path in [&other, &escape, &runs, &runs.join("test-x")] {
            remove_record(&runs, &path.display().to_string());
        }
        assert!(own.exists() && other.exists());
        remove_record(&runs, &own.display().to_string());
        assert!(!own.exists() && runs.join("test-x").exists());
    }
}
