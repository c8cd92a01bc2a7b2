//! Which causes users have acknowledged, and for which pairs alerts are muted.
//!
//! An acknowledgement ends with the cause. A mute ends at its time. Changes during a mute stay pending. When
//! it ends, the newest change of each pair is reported, unless the cause is the same as before the mute.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Archive, CauseChange};
use crate::{
    Error,
    database::sql::{Field, Row, read_all, read_first, values},
};

/// Stands for every point in a mute. No point can have this name.
pub(crate) const EACH: &str = "*";
/// Time for which a mute is kept after its end, microseconds: by then its changes have been reported or are
/// too old.
const KEPT_US: i64 = 86_400_000_000;

/// A user's acknowledgement of a pair's cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Start of the cause, microseconds since 1970: a later cause is not acknowledged.
    pub since_us: i64,
    /// The user who did this.
    pub user: String,
    /// A note.
    pub text: String,
    /// When the user did this, microseconds since 1970.
    pub at_us: i64,
}

/// Alerts of pairs are suppressed for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mute {
    /// The point that sends, or `*`.
    pub from: String,
    /// The point that receives, or `*`.
    pub to: String,
    /// Its end, microseconds since 1970.
    pub until_us: i64,
    /// The user who did this.
    pub user: String,
    /// A note.
    pub text: String,
    /// When the user did this, microseconds since 1970.
    pub at_us: i64,
}

impl Mute {
    /// Whether the mute applies to this pair.
    pub(crate) fn covers(&self, from: &str, to: &str) -> bool {
        let matches = |name: &str, point: &str| name == EACH || name == point;
        matches(&self.from, from) && matches(&self.to, to)
    }
}

/// A receiver of alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlertReceiver {
    /// [`crate::Alerts::webhook`].
    Webhook,
    /// [`crate::Alerts::command`].
    Command,
    /// [`crate::Alerts::mail`].
    Mail,
}

impl AlertReceiver {
    /// All receivers.
    pub const ALL: [AlertReceiver; 3] = [AlertReceiver::Webhook, AlertReceiver::Command, AlertReceiver::Mail];

    /// Its name in the archive.
    pub fn name(self) -> &'static str {
        match self {
            AlertReceiver::Webhook => "webhook",
            AlertReceiver::Command => "command",
            AlertReceiver::Mail => "mail",
        }
    }
}

/// The alert of a change, as far as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertProgress {
    /// When the change was found, microseconds since 1970.
    pub found_us: i64,
    /// The receivers that have accepted the alert.
    pub accepted: Vec<AlertReceiver>,
}

/// Acknowledged causes and mutes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attention {
    /// By pair.
    pub acknowledged: Vec<Acknowledgement>,
    /// The mutes that have not ended, or ended less than a day ago.
    pub mutes: Vec<Mute>,
}

/// What to do about a change for which no alert has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Send its alert.
    Send {
        /// The end of the last mute of the pair, or the start of the cause, microseconds since 1970. The
        /// alert is too late some time after it and after the change was found.
        reported_us: i64,
    },
    /// Send nothing.
    Settle,
    /// Wait until this time, microseconds since 1970.
    Wait(i64),
}

impl Attention {
    /// The acknowledgement of a cause.
    pub fn acknowledgement(&self, from: &str, to: &str, since_us: i64) -> Option<&Acknowledgement> {
        self.acknowledged
            .iter()
            .find(|known| known.from == from && known.to == to && known.since_us == since_us)
    }

    /// The end of the mute of a pair; `None` if it is not muted.
    pub fn muted_until(&self, from: &str, to: &str, now_us: i64) -> Option<i64> {
        self.last_mute_us(from, to).filter(|until_us| *until_us > now_us)
    }

    /// The end of the last mute of a pair, which may be over.
    fn last_mute_us(&self, from: &str, to: &str) -> Option<i64> {
        self.mutes.iter().filter(|mute| mute.covers(from, to)).map(|mute| mute.until_us).max()
    }

    /// The action for each pending change; changes are in the order of their starts. `before` gives the cause
    /// before a change.
    pub fn decide(
        &self,
        pending: &[CauseChange],
        now_us: i64,
        mut before: impl FnMut(&CauseChange) -> Result<Option<String>, Error>,
    ) -> Result<Vec<Decision>, Error> {
        // The newest change of each pair, and the cause before the oldest.
        let mut pairs: BTreeMap<(&str, &str, &str), (usize, Option<String>)> = BTreeMap::new();
        for (index, change) in pending.iter().enumerate() {
            let key = (change.from.as_str(), change.to.as_str(), change.kind.as_str());
            match pairs.get_mut(&key) {
                Some((newest, _)) => *newest = index,
                None => {
                    pairs.insert(key, (index, before(change)?));
                }
            }
        }
        let decision = |(index, change): (usize, &CauseChange)| {
            if self.acknowledgement(&change.from, &change.to, change.since_us).is_some() {
                return Decision::Settle;
            }
            let until_us = match self.last_mute_us(&change.from, &change.to) {
                Some(until_us) if until_us > now_us => return Decision::Wait(until_us),
                Some(until_us) if change.since_us < until_us => until_us,
                _ => return Decision::Send { reported_us: change.since_us },
            };
            let key = (change.from.as_str(), change.to.as_str(), change.kind.as_str());
            match pairs.get(&key) {
                Some((newest, before))
                    if *newest == index && before.as_deref() != Some(change.cause.as_str()) =>
                {
                    Decision::Send { reported_us: until_us }
                }
                _ => Decision::Settle,
            }
        };
        Ok(pending.iter().enumerate().map(decision).collect())
    }
}

impl Archive {
    /// The progress of a change's alert; a change without stored progress was found now.
    pub fn alert_progress(&mut self, change: &CauseChange, now_us: i64) -> Result<AlertProgress, Error> {
        let query = "SELECT found_us, accepted FROM alert_progress
             WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us = ?4 AND cause = ?5";
        let CauseChange { from, to, kind, since_us, cause, .. } = change;
        let key = values![from, to, kind, since_us, cause];
        let known = read_first(&*self.database, query, key, |row| {
            let (found_us, names): (i64, String) = (row.next()?, row.next()?);
            let accepted =
                AlertReceiver::ALL.into_iter().filter(|of| names.split(' ').any(|name| name == of.name()));
            Ok(AlertProgress { found_us, accepted: accepted.collect() })
        });
        match known.map_err(self.failed("read"))? {
            Some(known) => Ok(known),
            None => {
                let new = AlertProgress { found_us: now_us, accepted: Vec::new() };
                self.set_alert_progress(change, &new)?;
                Ok(new)
            }
        }
    }

    /// Stores the progress of a change's alert.
    pub fn set_alert_progress(
        &mut self,
        change: &CauseChange,
        progress: &AlertProgress,
    ) -> Result<(), Error> {
        let insert = "INSERT INTO alert_progress VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (lead, peer, kind, start_us, cause) DO UPDATE SET accepted = excluded.accepted";
        let CauseChange { from, to, kind, since_us, cause, .. } = change;
        let names: Vec<&str> = progress.accepted.iter().map(|receiver| receiver.name()).collect();
        let values = values![from, to, kind, since_us, cause, progress.found_us, names.join(" ")];
        self.write(|database| database.execute(insert, values).map(drop))
    }

    /// Acknowledged causes and mutes.
    pub fn attention(&self) -> Result<Attention, Error> {
        let acknowledged =
            "SELECT lead, peer, since_us, user, text, at_us FROM acknowledged ORDER BY lead, peer";
        let acknowledged = read_all(&*self.database, acknowledged, &[], |row: &mut Row<'_>| {
            Ok(Acknowledgement {
                from: row.next()?,
                to: row.next()?,
                since_us: row.next()?,
                user: row.next()?,
                text: row.next()?,
                at_us: row.next()?,
            })
        });
        let mutes = "SELECT lead, peer, until_us, user, text, at_us FROM mutes ORDER BY lead, peer";
        let mutes = read_all(&*self.database, mutes, &[], |row: &mut Row<'_>| {
            Ok(Mute {
                from: row.next()?,
                to: row.next()?,
                until_us: row.next()?,
                user: row.next()?,
                text: row.next()?,
                at_us: row.next()?,
            })
        });
        Ok(Attention {
            acknowledged: acknowledged.map_err(self.failed("read"))?,
            mutes: mutes.map_err(self.failed("read"))?,
        })
    }

    /// Stores an acknowledgement; it replaces that of an earlier cause of the pair.
    pub fn acknowledge(&mut self, of: &Acknowledgement) -> Result<(), Error> {
        let insert = "INSERT INTO acknowledged VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (lead, peer) DO UPDATE SET
             since_us = excluded.since_us, user = excluded.user, text = excluded.text, at_us = excluded.at_us";
        let values = values![of.from, of.to, of.since_us, of.user, of.text, of.at_us];
        self.write(|database| database.execute(insert, values).map(drop))
    }

    /// Stores a mute, and removes those that ended long ago.
    pub fn mute(&mut self, mute: &Mute) -> Result<(), Error> {
        let insert = "INSERT INTO mutes VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (lead, peer) DO UPDATE SET
             until_us = excluded.until_us, user = excluded.user, text = excluded.text, at_us = excluded.at_us";
        let oldest_us = mute.at_us.saturating_sub(KEPT_US);
        let values = values![mute.from, mute.to, mute.until_us, mute.user, mute.text, mute.at_us];
        self.write(|database| {
            database.execute("DELETE FROM mutes WHERE until_us < ?1", values![oldest_us])?;
            database.execute(insert, values).map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(to: &str, since_us: i64, cause: &str) -> CauseChange {
        CauseChange {
            from: "a".into(),
            to: to.into(),
            kind: "throughput".into(),
            since_us,
            cause: cause.into(),
            test: format!("a/{since_us}"),
        }
    }

    fn mute(from: &str, to: &str, until_us: i64) -> Mute {
        Mute { from: from.into(), to: to.into(), until_us, user: "x@a".into(), text: String::new(), at_us: 0 }
    }

    #[test]
    fn after_a_mute_the_newest_change_is_sent_if_the_cause_differs() {
        let pending = [
            change("b", 10, "loss"),
            change("c", 11, "loss"),
            change("b", 20, "receive_window"),
            change("c", 21, "path_rate"),
            change("d", 30, "loss"),
        ];
        let attention =
            Attention { mutes: vec![mute("a", "b", 50), mute("*", "c", 50)], ..Attention::default() };
        let decide = |now_us| attention.decide(&pending, now_us, |_| Ok(Some("path_rate".into()))).unwrap();
        let (wait, send) = (Decision::Wait(50), |reported_us| Decision::Send { reported_us });
        assert_eq!(decide(40), [wait, wait, wait, wait, send(30)]);
        // The cause of c is the same as before the mute.
        let settle = Decision::Settle;
        assert_eq!(decide(50), [settle, settle, send(50), settle, send(30)]);
    }

    #[test]
    fn the_progress_of_an_alert_is_kept_until_its_change_is_marked_as_alerted() {
        let mut archive = Archive::open(std::path::Path::new(":memory:"), None).unwrap();
        let (b, c) = (change("b", 10, "loss"), change("c", 10, "loss"));
        let mut progress = archive.alert_progress(&b, 1000).unwrap();
        assert_eq!(progress, AlertProgress { found_us: 1000, accepted: Vec::new() });
        progress.accepted = vec![AlertReceiver::Webhook, AlertReceiver::Mail];
        archive.set_alert_progress(&b, &progress).unwrap();
        assert_eq!(archive.alert_progress(&b, 2000).unwrap(), progress);
        assert_eq!(archive.alert_progress(&c, 2000).unwrap().found_us, 2000);
        archive.settle_change(&b).unwrap();
        assert_eq!(archive.alert_progress(&b, 3000).unwrap().found_us, 3000);
        assert_eq!(archive.alert_progress(&c, 3000).unwrap().found_us, 2000);
        archive.settle_all_changes().unwrap();
        assert_eq!(archive.alert_progress(&c, 4000).unwrap().found_us, 4000);
    }

    #[test]
    fn an_acknowledgement_applies_to_one_cause() {
        let directory = tempfile::tempdir().unwrap();
        let mut archive = Archive::open(&directory.path().join("archive.sqlite"), None).unwrap();
        let of = Acknowledgement {
            from: "a".into(),
            to: "b".into(),
            since_us: 10,
            user: "alice@a".into(),
            text: "known".into(),
            at_us: 15,
        };
        archive.acknowledge(&of).unwrap();
        archive.mute(&mute("*", "*", 7)).unwrap();
        archive.mute(&Mute { at_us: 8 + KEPT_US, ..mute("a", "*", 9) }).unwrap();
        let attention = archive.attention().unwrap();
        assert_eq!((attention.acknowledged.as_slice(), attention.mutes.len()), ([of].as_slice(), 1));
        let pending = [change("b", 10, "loss"), change("b", 20, "receive_window")];
        let attention = Attention { mutes: Vec::new(), ..attention };
        let decided = attention.decide(&pending, 30, |_| Ok(None)).unwrap();
        assert_eq!(decided, [Decision::Settle, Decision::Send { reported_us: 20 }]);
    }
}
