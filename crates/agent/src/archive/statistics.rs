//! Reads the statistics of pairs and the changes of their causes, and settles changes whose alerts were sent.

use super::{
    Archive, CauseChange, PairFacts,
    causes::{CHANGE, read_change},
    columns::{self, COLUMNS},
    pairs::{read_pair, read_pairs},
};
use crate::{
    Error, cause,
    database::sql::{Field, Value, read_all, read_first, values},
};

impl Archive {
    /// The statistics of each pair, ordered by names.
    pub fn pairs(&self) -> Result<Vec<PairFacts>, Error> {
        read_pairs(&*self.database).map_err(self.failed("read"))
    }

    /// The statistics of a pair; `None` if it has no tests.
    pub fn pair(&self, from: &str, to: &str) -> Result<Option<PairFacts>, Error> {
        read_pair(&*self.database, from, to).map_err(self.failed("read"))
    }

    /// The changes of a pair's cause that tests of a kind found since a time, oldest first, and the last one
    /// before that time.
    pub fn changes(
        &self,
        from: &str,
        to: &str,
        kind: &str,
        since_us: i64,
    ) -> Result<Vec<CauseChange>, Error> {
        let query = format!(
            "SELECT {CHANGE} FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us >= coalesce(
                 (SELECT max(start_us) FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us <= ?4), ?4)
             ORDER BY start_us"
        );
        self.read_changes(&query, values![from, to, kind, since_us])
    }

    fn read_changes(&self, query: &str, values: &[Value]) -> Result<Vec<CauseChange>, Error> {
        read_all(&*self.database, query, values, read_change).map_err(self.failed("read"))
    }

    /// The changes for which no alert has been sent, oldest first.
    pub fn pending_changes(&self) -> Result<Vec<CauseChange>, Error> {
        self.read_changes(
            &format!("SELECT {CHANGE} FROM causes WHERE is_pending = 1 ORDER BY start_us, lead, peer, kind"),
            &[],
        )
    }

    /// The cause before a change.
    pub fn cause_before(&self, change: &CauseChange) -> Result<Option<String>, Error> {
        let query = "SELECT cause FROM causes WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us < ?4
             ORDER BY start_us DESC LIMIT 1";
        let values = values![change.from, change.to, change.kind, change.since_us];
        read_first(&*self.database, query, values, |row| row.next()).map_err(self.failed("read"))
    }

    /// Goodput of the last test of the kind that found a change, with the options of the tests that decide on
    /// the pair.
    pub fn last_goodput(&self, change: &CauseChange) -> Result<Option<f64>, Error> {
        let query = "SELECT goodput_bps FROM tests WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND coalesce(options, '') = coalesce(
                 (SELECT throughput_options FROM pairs WHERE pairs.lead = ?1 AND pairs.peer = ?2), '')
             ORDER BY start_us DESC LIMIT 1";
        let CauseChange { from, to, kind, .. } = change;
        let last =
            read_first(&*self.database, query, values![from, to, kind], |row| row.next::<Option<f64>>());
        last.map(Option::flatten).map_err(self.failed("read"))
    }

    /// The change that would remove a cause, as the newest test that found the cause states it; `None` if it
    /// states none.
    pub fn remedy(&self, change: &CauseChange) -> Result<Option<String>, Error> {
        // Tests without a result have no verdict.
        if change.cause == cause::NO_RESULT {
            return Ok(None);
        }
        let query = format!(
            "SELECT {COLUMNS} FROM tests WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us >= ?4 AND verdict = ?5
             ORDER BY start_us DESC LIMIT 1"
        );
        let CauseChange { from, to, kind, since_us, cause, .. } = change;
        let newest =
            read_first(&*self.database, &query, values![from, to, kind, since_us, cause], columns::read);
        let newest = newest.map_err(self.failed("read"))?;
        Ok(newest.and_then(|row| row.figures.remedy().map(str::to_owned)))
    }

    /// Marks a change as alerted: its alert was sent, or is too old.
    pub fn settle_change(&mut self, change: &CauseChange) -> Result<(), Error> {
        let CauseChange { from, to, kind, since_us, .. } = change;
        let update =
            "UPDATE causes SET is_pending = 0 WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us = ?4";
        let delete =
            "DELETE FROM alert_progress WHERE lead = ?1 AND peer = ?2 AND kind = ?3 AND start_us = ?4";
        self.write(|database| {
            database.execute(update, values![from, to, kind, since_us])?;
            database.execute(delete, values![from, to, kind, since_us]).map(drop)
        })
    }

    /// Marks all changes as alerted, without sending alerts.
    pub fn settle_all_changes(&mut self) -> Result<(), Error> {
        let update = "UPDATE causes SET is_pending = 0 WHERE is_pending = 1";
        self.write(|database| {
            database.execute(update, &[])?;
            database.execute("DELETE FROM alert_progress", &[]).map(drop)
        })
    }
}
