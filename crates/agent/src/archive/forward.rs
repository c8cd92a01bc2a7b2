//! Forwards the tests that a point leads to the common archive of the mesh: in order, and each exactly once.
//!
//! Each row that is stored in the embedded archive gets a number in its spool in the same transaction. A
//! thread sends the rows to PostgreSQL in that order; the transaction that stores them there also stores the
//! number of the last one. Only then does the agent's loop remove them from the spool. If the server is
//! unavailable, or its reply is lost, the numbers show where to continue.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Archive, Retention,
    common::{server_time_us, set_stored_number, stored_number},
    rows::{get, put},
};
use crate::{
    Error, TestRow,
    database::{
        PostgresAddress,
        sql::{Field, read_all, read_first, values},
    },
};

/// Maximum number of rows in one transaction of the common archive.
const MAX_ROWS: i64 = 256;
/// Pause before the next attempt to connect to an unavailable server.
const RETRY: Duration = Duration::from_secs(5);
/// Interval at which the common archive is searched for old results.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3600);
/// Pause before the first step of retention, and between two steps.
const RETENTION_PAUSE: Duration = Duration::from_secs(1);

/// How far in the future a test may start (the reservation's horizon), microseconds.
const MAX_AHEAD_US: i64 = 7 * super::retention::DAY_US;

/// This point's UTC, microseconds since 1970.
fn unix_us() -> i64 {
    i64::try_from(os::realtime().as_micros()).unwrap_or(i64::MAX)
}

/// A waiting row: its number and its test's id.
type Spooled = (i64, String);

impl Archive {
    /// The name of the spool.
    fn spool_name(&self) -> Result<String, Error> {
        let name = read_first(&*self.database, "SELECT name FROM spool_name", &[], |row| row.next());
        Ok(name.map_err(self.failed("read"))?.unwrap_or_default())
    }

    /// The next waiting rows with higher numbers than `after`, in order.
    fn spooled(&self, after: i64) -> Result<Vec<Spooled>, Error> {
        let query = "SELECT number, id FROM spool WHERE number > ?1 ORDER BY number LIMIT ?2";
        let rows =
            read_all(&*self.database, query, values![after, MAX_ROWS], |row| Ok((row.next()?, row.next()?)));
        rows.map_err(self.failed("read"))
    }

    /// Number of rows that wait; `None` if nothing is forwarded.
    pub fn spooled_count(&self) -> Result<Option<u64>, Error> {
        if self.spool_of.is_none() {
            return Ok(None);
        }
        let count = read_first(&*self.database, "SELECT count(*) FROM spool", &[], |row| row.next());
        count.map_err(self.failed("read"))
    }

    /// Removes the rows up to this number: the common archive has stored them.
    pub fn forwarded(&mut self, number: i64) -> Result<(), Error> {
        let delete = "DELETE FROM spool WHERE number <= ?1";
        self.write(|database| database.execute(delete, values![number]).map(drop))
    }

    /// Stores rows of a spool in the common archive, in one transaction.
    fn store(&mut self, spool: &str, rows: &[TestRow], number: i64) -> Result<(), Error> {
        let latest_start_us = self.latest_start_us;
        self.write(|database| {
            for row in rows {
                put(database, row, latest_start_us)?;
            }
            set_stored_number(database, spool, number)
        })
    }
}

/// The thread that forwards; it ends when this is dropped.
pub(crate) struct Forwarder {
    wake: SyncSender<()>,
}

impl Forwarder {
    /// Starts the thread for an embedded archive. `report` receives the number up to which rows are stored,
    /// and returns `false` if the agent has ended.
    pub fn start(
        path: &Path,
        address: &PostgresAddress,
        retention: Retention,
        may_remove: Arc<AtomicBool>,
        report: impl Fn(i64) -> bool + Send + 'static,
    ) -> Result<Forwarder, Error> {
        let (wake, woken) = sync_channel(1);
        let (path, address, report) = (path.into(), address.clone(), Box::new(report));
        let work = Work { path, address, retention, may_remove, report, woken };
        let spawned = thread::Builder::new().name("archive".into()).spawn(move || work.run());
        spawned.map_err(|cause| Error::system("start the thread of the common archive", cause))?;
        Ok(Forwarder { wake })
    }

    /// Notifies the thread that a row was stored.
    pub fn wake(&self) {
        // A full channel means that the thread is about to check for rows anyway.
        let _ = self.wake.try_send(());
    }
}

struct Work {
    path: PathBuf,
    address: PostgresAddress,
    retention: Retention,
    /// Whether this point's clock is reliable enough to remove old results.
    may_remove: Arc<AtomicBool>,
    /// Reports what is stored; returns `false` if the agent has ended.
    report: Box<dyn Fn(i64) -> bool + Send>,
    woken: Receiver<()>,
}

impl Work {
    fn run(self) {
        let mut is_unavailable = false;
        loop {
            let error = match self.forward(&mut is_unavailable) {
                Ok(()) => return,
                Err(error) => error,
            };
            // Only the first failed attempt logs a warning.
            if !std::mem::replace(&mut is_unavailable, true) {
                tracing::warn!("{error}; results are kept, and are sent when the server is available again");
            }
            let retry_at = Instant::now() + RETRY;
            loop {
                match self.woken.recv_timeout(retry_at.saturating_duration_since(Instant::now())) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    /// Forwards until the agent ends, or until an error.
    fn forward(&self, is_unavailable: &mut bool) -> Result<(), Error> {
        let own = Archive::open_for_reading(&self.path)?;
        let spool = own.spool_name()?;
        let mut common = Archive::connect(&self.address)?;
        let stored = stored_number(&*common.database, &spool).map_err(common.failed("read"))?;
        if std::mem::take(is_unavailable) {
            tracing::info!("connected with {}", common.name);
        }
        let mut last = stored;
        if !(self.report)(last) {
            return Ok(());
        }
        let mut retention_at = Instant::now() + RETENTION_PAUSE;
        loop {
            let waiting = own.spooled(last)?;
            if let Some((number, _)) = waiting.last() {
                let mut rows = Vec::new();
                for (_, id) in &waiting {
                    rows.extend(get(&*own.database, id).map_err(own.failed("read"))?);
                }
                common.set_latest_start(unix_us().saturating_add(MAX_AHEAD_US));
                common.store(&spool, &rows, *number)?;
                last = *number;
                if !(self.report)(last) {
                    return Ok(());
                }
                continue;
            }
            if retention_at <= Instant::now() {
                // A wrong clock at one point must not remove the results of all points: the server's clock
                // must agree.
                let now_us = unix_us().min(server_time_us(&*common.database).map_err(common.failed("read"))?);
                let has_more = self.may_remove.load(Ordering::Acquire)
                    && common.apply_common_retention(now_us, &self.retention)?;
                retention_at = Instant::now() + if has_more { RETENTION_PAUSE } else { RETENTION_INTERVAL };
            }
            match self.woken.recv_timeout(retention_at.saturating_duration_since(Instant::now())) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

impl Archive {
    /// Executes one step of the common archive's retention; true if more steps are due. Records are stored by
    /// the points that led their tests, which also remove them.
    fn apply_common_retention(&mut self, now_us: i64, retention: &Retention) -> Result<bool, Error> {
        let kept_us = i64::from(retention.records_days).saturating_mul(super::retention::DAY_US);
        let records = now_us.saturating_sub(kept_us);
        let update = "UPDATE tests SET record = NULL WHERE record IS NOT NULL AND start_us < ?1";
        self.write(|database| database.execute(update, values![records]).map(drop))?;
        self.apply_retention_to_rows(now_us, retention)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use testing::{Missing, postgres::Cluster};

    use super::*;
    use crate::{
        State,
        archive::{
            Filter,
            retention::{DAY_US, HOUR_US},
        },
        test_row::tests::row,
    };

    /// Waits until the thread reports that rows are stored up to this number.
    fn wait_for(reported: &Receiver<i64>, number: i64) {
        while reported.recv().expect("the thread runs") != number {}
    }

    #[test]
    fn rows_are_stored_in_order_and_only_once_even_if_a_reply_is_lost() {
        let Some(mut cluster) = Cluster::create() else {
            return testing::skip(Missing::Tool, "PostgreSQL 15 or newer is not installed");
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let address: PostgresAddress = cluster.address().parse().unwrap();
        let now_us = i64::try_from(os::realtime().as_micros()).unwrap() / HOUR_US * HOUR_US;
        let row = |id: &str, after_us: i64| row(id, now_us + after_us);
        // Tests from before the common archive was configured; another point led one of them.
        let mut own = Archive::open(&path, None).unwrap();
        for id in ["a/1", "a/2"] {
            own.put(&row(id, 10), &[]).unwrap();
        }
        own.put(&TestRow { from: "b".into(), ..row("b/1", 10) }, &[]).unwrap();
        drop(own);
        let mut own = Archive::open(&path, Some(&"a".into())).unwrap();
        let evidence = Some("a NUL: \0".to_string());
        let mut third = row("a/3", 20);
        third.figures.evidence = evidence;
        own.put(&third, &[]).unwrap();
        own.put(&TestRow { state: State::Running, ..row("a/4", 30) }, &[]).unwrap();
        assert_eq!(own.spooled_count().unwrap(), Some(4));
        let retention = Retention::default();
        let start = || {
            let (sender, reported) = channel();
            let may_remove = Arc::new(AtomicBool::new(true));
            let report = move |number| sender.send(number).is_ok();
            (Forwarder::start(&path, &address, retention, may_remove, report).unwrap(), reported)
        };
        let (forwarder, reported) = start();
        cluster.start();
        wait_for(&reported, 4);
        own.put(&row("a/4", 30), &[]).unwrap();
        forwarder.wake();
        wait_for(&reported, 5);
        drop(forwarder);
        // The spool has not been emptied, as after a kill. Meanwhile the common archive replaces rows with
        // hourly averages.
        let mut common = Archive::connect(&address).unwrap();
        let all = |archive: &Archive| archive.list(&Filter { limit: 100, ..Filter::default() }).unwrap();
        let ids = |archive: &Archive| all(archive).into_iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(ids(&common), ["a/4", "a/3", "a/2", "a/1"]);
        assert_eq!(all(&common)[1].figures.evidence.as_deref(), Some("a NUL: \u{fffd}"));
        let later_us = now_us + 200 * DAY_US;
        while common.apply_common_retention(later_us, &retention).unwrap() {}
        let (forwarder, reported) = start();
        wait_for(&reported, 5);
        own.put(&row("a/5", 199 * DAY_US), &[]).unwrap();
        forwarder.wake();
        wait_for(&reported, 6);
        assert_eq!(ids(&common), ["a/5"]);
        let hours = common.hours("a", "b", 0).unwrap();
        assert_eq!(hours.iter().map(|hour| hour.finished).collect::<Vec<_>>(), [4]);
        assert_eq!(common.pairs().unwrap()[0].tests.finished, 5);
        // Only then are rows removed from the spool. Until then the embedded archive does not replace them
        // with hourly averages.
        while own.apply_retention(later_us, &retention, "a", |_| {}).unwrap() {}
        assert_eq!(ids(&own), ["a/5", "a/4", "a/3", "a/2", "a/1"]);
        own.forwarded(6).unwrap();
        assert_eq!(own.spooled_count().unwrap(), Some(0));
        while own.apply_retention(later_us, &retention, "a", |_| {}).unwrap() {}
        assert_eq!(ids(&own), ["a/5"]);
    }

    /// Rows whose values depend on their number alone.
    fn rows() -> Vec<TestRow> {
        let points = ["a", "b", "é", "Z"];
        let kinds = ["throughput", "latency", "diagnose", "probe", "trace"];
        let verdicts = ["path_rate", "loss", "receive_window"];
        (0..400_u64)
            .map(|number| {
                let pick =
                    |size: usize, salt: u64| (number.wrapping_mul(2_654_435_761 + salt) >> 7) as usize % size;
                let from = pick(points.len(), 2);
                let start_us = number as i64 / 3 * 400_000_000;
                let mut row = row(&format!("{}/{number}", points[from]), start_us);
                row.from = points[from].into();
                row.to = points[(from + 1 + pick(3, 4)) % points.len()].into();
                row.kind = kinds[pick(kinds.len(), 6)].into();
                row.state = [State::Finished, State::Finished, State::Failed, State::NotRun][pick(4, 8)];
                row.figures.verdict = (pick(4, 10) > 0).then(|| verdicts[pick(3, 12)].to_string());
                row.figures.goodput_bps = (pick(5, 14) > 0).then_some(1e6 * number as f64);
                row.figures.loss_share = (pick(2, 16) > 0).then_some(0.25);
                row.figures.min_rtt_us = (pick(3, 18) > 0).then_some(1000.0 - number as f64);
                row.figures.typical_rtt_us = (pick(3, 20) > 0).then_some(1500.0);
                row.figures.capacity_bps = (pick(3, 24) > 0).then_some(1e9 + number as f64);
                row.figures.available_bps = (pick(2, 26) > 0).then_some(1e6 * number as f64);
                row.figures.mtu_bytes = (pick(3, 28) > 0).then_some(1500 - number % 3);
                row.figures.hops = (pick(2, 30) > 0).then_some(5 + number % 4);
                row.options = (row.kind == "throughput" && pick(2, 32) > 0).then(|| "parallel=4".to_string());
                if row.state != State::Finished {
                    row.reason = Some("because".into());
                    row.reason_kind = Some(["rule", "unreachable", "test_failed"][pick(3, 22)].into());
                }
                row
            })
            .collect()
    }

    #[test]
    fn records_are_kept_for_any_number_of_days() {
        let mut archive = Archive::open(Path::new(":memory:"), None).unwrap();
        let stored = row("a/1", 10);
        archive.put(&stored, &[]).unwrap();
        for records_days in [110_000_000, u32::MAX] {
            let retention = Retention { records_days, ..Retention::default() };
            archive.apply_common_retention(20, &retention).unwrap();
        }
        assert_eq!(archive.get("a/1").unwrap().unwrap().record, stored.record);
    }

    #[test]
    fn both_databases_give_the_same_results() {
        let Some(mut cluster) = Cluster::create() else {
            return testing::skip(Missing::Tool, "PostgreSQL 15 or newer is not installed");
        };
        cluster.start();
        let mut embedded = Archive::open(Path::new(":memory:"), None).unwrap();
        let mut common = Archive::connect(&cluster.address().parse().unwrap()).unwrap();
        let retention = Retention { records_days: 0, tests_days: 0, hours_days: 10 };
        let compare = |embedded: &Archive, common: &Archive| {
            for number in 0..32 {
                let is_set = |bit: u32| number & (1 << bit) != 0;
                let filter = Filter {
                    from: is_set(0).then(|| "é".into()),
                    to: is_set(1).then(|| "a".into()),
                    kind: is_set(2).then(|| "throughput".into()),
                    since_us: is_set(3).then_some(30_000_000_000),
                    limit: if is_set(4) { 7 } else { 1000 },
                };
                assert_eq!(embedded.list(&filter).unwrap(), common.list(&filter).unwrap(), "{filter:?}");
            }
            assert_eq!(embedded.counts().unwrap(), common.counts().unwrap());
            let pairs = embedded.pairs().unwrap();
            assert_eq!(pairs, common.pairs().unwrap());
            assert_eq!(embedded.pending_changes().unwrap(), common.pending_changes().unwrap());
            for pair in &pairs {
                for archive in [embedded, common] {
                    assert_eq!(archive.pair(&pair.from, &pair.to).unwrap().as_ref(), Some(pair));
                }
                for since_us in [0, 30_000_000_000] {
                    let hours = |archive: &Archive| archive.hours(&pair.from, &pair.to, since_us).unwrap();
                    assert_eq!(hours(embedded), hours(common));
                    for kind in ["throughput", "diagnose"] {
                        let changes = |archive: &Archive| {
                            archive.changes(&pair.from, &pair.to, kind, since_us).unwrap()
                        };
                        assert_eq!(changes(embedded), changes(common));
                    }
                }
            }
            pairs.len()
        };
        let rows = rows();
        let (early, late) = rows.split_at(380);
        for row in early.iter().chain(&early[100..120]) {
            embedded.put(row, &[]).unwrap();
            common.put(row, &[]).unwrap();
        }
        assert_eq!(compare(&embedded, &common), 12);
        // The rows of the first half are replaced with hourly averages. Then rows arrive late, and all rows
        // are replaced.
        for now_us in [25_000_000_000, 60_000_000_000] {
            while embedded.apply_retention(now_us, &retention, "a", |_| {}).unwrap() {}
            while common.apply_common_retention(now_us, &retention).unwrap() {}
            compare(&embedded, &common);
            for row in late {
                embedded.put(&TestRow { start_us: row.start_us / 3, ..row.clone() }, &[]).unwrap();
                common.put(&TestRow { start_us: row.start_us / 3, ..row.clone() }, &[]).unwrap();
            }
            compare(&embedded, &common);
        }
        assert!(embedded.hours("a", "b", 0).unwrap().len() > 3);
    }
}
