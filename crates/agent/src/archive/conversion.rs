//! Creates the tables of an embedded archive, converts those of earlier versions, and prepares the spool.

use super::{
    columns::{COLUMNS, read},
    pairs,
    tables::{
        ATTENTION, FIRST_VERSION, FORMAT, FOURTH_VERSION, OUTBOX, SECOND_VERSION, SPOOL, THIRD_VERSION,
        tables,
    },
};
use crate::database::sql::{self, Database, Field, Row, read_first, values};

/// Length of the spool's random name, bytes.
const SPOOL_NAME_BYTES: usize = 16;

/// Moves the hourly averages of an earlier version, whose tests had no options, into this version's table.
pub(super) const RESTORE_HOURS: &str = "
    INSERT INTO hours (lead, peer, kind, options, hour_us, finished, failed, not_run, goodputs, goodput_sum_bps, min_goodput_bps,
        max_goodput_bps, losses, loss_sum, rtts, rtt_sum_us, min_rtt_us, verdict)
    SELECT lead, peer, kind, '', hour_us, finished, failed, not_run, goodputs, goodput_sum_bps, min_goodput_bps,
        max_goodput_bps, losses, loss_sum, rtts, rtt_sum_us, min_rtt_us, verdict FROM old_hours;
    DROP TABLE old_hours";

/// Statements that change the tables of an earlier version, from the second on, so that those of this version can be created beside them.
/// After creating the tables, run [`RESTORE_HOURS`] and, for versions before the fourth, [`pairs::convert`].
pub(super) fn prepare_tables(version: i64) -> String {
    let pairs = match version {
        FOURTH_VERSION => {
            "ALTER TABLE pairs ADD COLUMN throughput_options TEXT; ALTER TABLE pairs ADD COLUMN latency_options TEXT"
        }
        _ => "ALTER TABLE pairs RENAME TO old_pairs",
    };
    let newest = match version {
        THIRD_VERSION => "; ALTER TABLE newest ADD COLUMN options TEXT",
        _ => "",
    };
    format!(
        "ALTER TABLE tests ADD COLUMN options TEXT;
         ALTER TABLE hours RENAME TO old_hours;
         DROP INDEX IF EXISTS hours_by_time;
         {pairs}{newest}"
    )
}

/// Creates the missing tables of an embedded archive, and converts an archive of an earlier `version`.
pub(super) fn create(database: &dyn Database, version: Option<i64>) -> sql::Result<()> {
    let old = version.filter(|version| *version != FORMAT.version);
    match old {
        None => {}
        Some(FIRST_VERSION) => database.batch(
            "ALTER TABLE tests ADD COLUMN reason_kind TEXT; ALTER TABLE tests ADD COLUMN options TEXT",
        )?,
        Some(version) => database.batch(&prepare_tables(version))?,
    }
    database.convert(&format!(
        "{}
         DROP INDEX IF EXISTS tests_by_pair;
         {OUTBOX} {SPOOL} {ATTENTION} {}",
        tables(),
        FORMAT.pragmas()
    ))?;
    let Some(version) = old else { return Ok(()) };
    if matches!(version, FIRST_VERSION | SECOND_VERSION) {
        database.batch("INSERT INTO states SELECT state, count(*) FROM tests GROUP BY state")?;
    }
    if version == FIRST_VERSION {
        let query = format!("SELECT {COLUMNS} FROM tests WHERE state <> 'running' ORDER BY start_us");
        let update = |row: &mut Row<'_>| pairs::update_pair(database, &read(row)?, None, i64::MAX);
        return database.query(&query, &[], &mut |row| update(row));
    }
    database.convert(RESTORE_HOURS)?;
    if version == FOURTH_VERSION { Ok(()) } else { pairs::convert(database, version == THIRD_VERSION) }
}

/// Prepares the spool, or empties it if no results are forwarded. A new spool begins with all tests that the point `own` has led.
pub(super) fn prepare_spool(database: &dyn Database, own: Option<&str>) -> sql::Result<()> {
    let Some(own) = own else {
        return database.batch("DELETE FROM spool; DELETE FROM spool_name");
    };
    let name: Option<String> = read_first(database, "SELECT name FROM spool_name", &[], |row| row.next())?;
    if name.is_some() {
        return Ok(());
    }
    let name = os::random_hex(SPOOL_NAME_BYTES)?;
    database.execute("INSERT INTO spool_name VALUES (?1)", values![name])?;
    let all = "INSERT INTO spool (id) SELECT id FROM tests WHERE lead = ?1 ORDER BY start_us, id";
    database.execute(all, values![own]).map(drop)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        archive::{Archive, Filter, TestCounts},
        sqlite::Format,
        test_row::tests::row,
    };

    #[test]
    fn an_archive_of_the_first_version_gets_the_missing_tables() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(&format!(
            "CREATE TABLE tests (
                 id TEXT PRIMARY KEY, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
                 start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
                 goodput_bps REAL, loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT,
                 record TEXT) STRICT;
             INSERT INTO tests VALUES ('a/1', 'a', 'b', 'throughput', NULL, 5, 6, 'finished', NULL, 1e9, 0, 1, 1,
                 'path_rate', NULL, 'runs/x');
             {}",
            Format { version: FIRST_VERSION, ..FORMAT }.pragmas()
        ))
        .unwrap();
        drop(old);
        for _ in 0..2 {
            let archive = Archive::open(&path, None).unwrap();
            assert_eq!(archive.get("a/1").unwrap().unwrap().figures.goodput_bps, Some(1e9));
            let pairs = archive.pairs().unwrap();
            assert_eq!((pairs.len(), pairs[0].best_goodput_bps), (1, Some(1e9)));
            assert_eq!(pairs[0].cause.as_ref().unwrap().cause, "path_rate");
        }
        assert_eq!(Archive::open_for_reading(&path).unwrap().pairs().unwrap().len(), 1);
    }

    #[test]
    fn an_archive_of_the_second_version_keeps_its_hourly_averages_and_newest_tests() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(&format!(
            "CREATE TABLE tests (
                 id TEXT PRIMARY KEY, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
                 start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
                 goodput_bps REAL, loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT,
                 record TEXT, reason_kind TEXT) STRICT;
             CREATE INDEX tests_by_pair ON tests (lead, peer, kind, start_us);
             CREATE TABLE outbox (id TEXT NOT NULL, point TEXT NOT NULL, PRIMARY KEY (id, point)) STRICT;
             CREATE TABLE pairs (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, best_goodput_bps REAL, finished INTEGER NOT NULL, failed INTEGER NOT NULL,
                 refused INTEGER NOT NULL, not_run INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;
             CREATE TABLE causes (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
                 id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
             CREATE INDEX causes_pending ON causes (start_us) WHERE is_pending;
             CREATE TABLE hours (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, hour_us INTEGER NOT NULL,
                 finished INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
                 goodputs INTEGER NOT NULL, goodput_sum_bps REAL NOT NULL, min_goodput_bps REAL, max_goodput_bps REAL,
                 losses INTEGER NOT NULL, loss_sum REAL NOT NULL, rtts INTEGER NOT NULL, rtt_sum_us REAL NOT NULL, min_rtt_us REAL,
                 verdict TEXT, PRIMARY KEY (lead, peer, kind, hour_us)) STRICT;
             CREATE INDEX hours_by_time ON hours (hour_us);
             INSERT INTO tests VALUES ('a/1', 'a', 'b', 'throughput', NULL, 5, 6, 'finished', NULL, 1e9, 0, 1, 1,
                 'path_rate', NULL, 'runs/x', NULL);
             INSERT INTO tests VALUES ('a/2', 'a', 'b', 'throughput', NULL, 7, 6, 'finished', NULL, 2e9, 0, 1, 1,
                 'path_rate', NULL, 'runs/y', NULL);
             INSERT INTO pairs VALUES ('a', 'b', 3e9, 5, 0, 0, 0);
             INSERT INTO causes VALUES ('a', 'b', 'throughput', 1, 'path_rate', 'a/0', 0);
             INSERT INTO hours VALUES ('a', 'b', 'throughput', 0, 3, 0, 0, 3, 3e9, 1e9, 1e9, 0, 0.0, 0, 0.0, NULL, 'loss');
             {}",
            Format { version: SECOND_VERSION, ..FORMAT }.pragmas()
        ))
        .unwrap();
        drop(old);
        for _ in 0..2 {
            let archive = Archive::open(&path, None).unwrap();
            let pairs = archive.pairs().unwrap();
            let [pair] = &pairs[..] else { panic!("{pairs:?}") };
            assert_eq!((pair.best_goodput_bps, pair.tests.finished), (Some(3e9), 5));
            assert_eq!(pair.throughput.as_ref().unwrap().start_us, 7);
            assert_eq!(pair.conclusion.as_ref().unwrap().start_us, 7);
            assert_eq!(pair.cause.as_ref().unwrap().test, "a/0");
            let hours = archive.hours("a", "b", 0).unwrap();
            assert_eq!((hours.len(), hours[0].finished, hours[0].goodput_bps), (1, 3, Some(1e9)));
            assert_eq!(archive.counts().unwrap(), [("finished".to_string(), 2)]);
        }
    }

    /// The tables of the third version, the same in SQLite and PostgreSQL, with two pairs.
    pub fn third_version() -> String {
        let columns = "id TEXT NOT NULL, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
            start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT, goodput_bps REAL,
            loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT, record TEXT, reason_kind TEXT";
        format!(
            "CREATE TABLE tests ({columns}, PRIMARY KEY (id)) STRICT;
             CREATE INDEX tests_of_pair ON tests (lead, peer, start_us);
             CREATE INDEX tests_of_kind ON tests (kind, start_us);
             CREATE TABLE states (state TEXT NOT NULL, tests INTEGER NOT NULL, PRIMARY KEY (state)) STRICT;
             CREATE TABLE pairs (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, best_goodput_bps REAL, finished INTEGER NOT NULL,
                 failed INTEGER NOT NULL, refused INTEGER NOT NULL, not_run INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;
             CREATE TABLE causes (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
                 id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
             CREATE TABLE hours (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, hour_us INTEGER NOT NULL,
                 finished INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
                 goodputs INTEGER NOT NULL, goodput_sum_bps REAL NOT NULL, min_goodput_bps REAL, max_goodput_bps REAL,
                 losses INTEGER NOT NULL, loss_sum REAL NOT NULL, rtts INTEGER NOT NULL, rtt_sum_us REAL NOT NULL, min_rtt_us REAL,
                 verdict TEXT, PRIMARY KEY (lead, peer, hour_us, kind)) STRICT, WITHOUT ROWID;
             CREATE INDEX hours_by_time ON hours (hour_us);
             INSERT INTO hours VALUES ('a', 'b', 'throughput', 0, 3, 0, 0, 3, 6e9, 1e9, 3e9, 0, 0.0, 0, 0.0, NULL, 'loss');
             CREATE TABLE newest (shows TEXT NOT NULL, {columns}, PRIMARY KEY (lead, peer, shows)) STRICT, WITHOUT ROWID;
             INSERT INTO states VALUES ('finished', 1);
             INSERT INTO tests VALUES ('a/3', 'a', 'b', 'throughput', NULL, 9, 6, 'finished', NULL, 2e9, 0, 1, 2, 'loss', NULL, NULL, NULL);
             INSERT INTO pairs VALUES ('a', 'b', 3e9, 5, 4, 3, 2);
             INSERT INTO pairs VALUES ('a', 'c', 1e9, 1, 0, 0, 0);
             INSERT INTO causes VALUES ('a', 'b', 'throughput', 1, 'path_rate', 'a/0', 0);
             INSERT INTO causes VALUES ('a', 'b', 'throughput', 5, 'loss', 'a/1', 1);
             INSERT INTO causes VALUES ('a', 'b', 'diagnose', 6, 'policer', 'a/2', 0);
             INSERT INTO causes VALUES ('a', 'c', 'diagnose', 2, 'policer', 'a/5', 0);
             INSERT INTO newest VALUES ('diagnosis', 'a/9', 'a', 'b', 'diagnose', NULL, 10, 6, 'finished', NULL, 1e9, 0, 7, 8, 'policer', NULL, NULL, NULL);
             INSERT INTO newest VALUES ('throughput', 'a/3', 'a', 'b', 'throughput', NULL, 9, 6, 'finished', NULL, 2e9, 0, 1, 2, 'loss', NULL, NULL, NULL);
             INSERT INTO newest VALUES ('latency', 'a/4', 'a', 'b', 'latency', NULL, 8, 6, 'finished', NULL, NULL, 0.5, 3, 4, NULL, NULL, NULL, NULL);
             INSERT INTO newest VALUES ('cause', 'a/6', 'a', 'b', 'throughput', NULL, 11, 6, 'not_run', 'c is down', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'unreachable');
             INSERT INTO newest VALUES ('diagnosis', 'a/5', 'a', 'c', 'diagnose', NULL, 2, 6, 'finished', NULL, 1e9, 0, 7, 8, 'policer', NULL, NULL, NULL);
             INSERT INTO newest VALUES ('cause', 'a/5', 'a', 'c', 'diagnose', NULL, 2, 6, 'finished', NULL, 1e9, 0, 7, 8, 'policer', NULL, NULL, NULL);"
        )
    }

    /// Checks the pairs of [`third_version`] and that the archive can be used.
    pub fn check_third_version(archive: &mut Archive) {
        let pairs = archive.pairs().unwrap();
        let [b, c] = &pairs[..] else { panic!("{pairs:?}") };
        assert_eq!((b.from.as_str(), b.to.as_str(), c.to.as_str()), ("a", "b", "c"));
        assert_eq!(b.tests, TestCounts { finished: 5, failed: 4, refused: 3, not_run: 2 });
        assert_eq!(b.best_goodput_bps, Some(3e9));
        let throughput = b.throughput.as_ref().unwrap();
        assert_eq!((throughput.kind.as_str(), throughput.start_us), ("throughput", 9));
        assert_eq!((throughput.goodput_bps, throughput.min_rtt_us), (Some(2e9), Some(1.0)));
        let latency = b.latency.as_ref().unwrap();
        assert_eq!((latency.loss_share, latency.typical_rtt_us), (Some(0.5), Some(4.0)));
        let conclusion = b.conclusion.as_ref().unwrap();
        assert_eq!(
            (conclusion.cause.as_str(), conclusion.reason.as_deref()),
            ("no_result", Some("c is down"))
        );
        let cause = b.cause.as_ref().unwrap();
        assert_eq!((cause.cause.as_str(), cause.since_us, cause.test.as_str()), ("loss", 5, "a/1"));
        // Without throughput tests, the diagnoses determine the cause.
        assert_eq!(c.throughput.as_ref().unwrap().kind, "diagnose");
        assert_eq!(c.cause.as_ref().unwrap().cause, "policer");
        assert_eq!(archive.pending_changes().unwrap().len(), 1);
        archive.put(&row("a/7", 20), &[]).unwrap();
        check_hour(archive);
        let b = archive.pair("a", "b").unwrap().unwrap();
        assert_eq!((b.tests.finished, b.throughput.unwrap().start_us), (6, 20));
        assert_eq!(archive.list(&Filter { limit: 9, ..Filter::default() }).unwrap().len(), 2);
        assert_eq!(archive.counts().unwrap(), [("finished".to_string(), 2)]);
    }

    /// Checks the hourly average of [`third_version`], whose tests had no options.
    fn check_hour(archive: &Archive) {
        let hours = archive.hours("a", "b", 0).unwrap();
        let [hour] = &hours[..] else { panic!("{hours:?}") };
        assert_eq!((hour.finished, hour.goodput_bps, hour.options.as_deref()), (3, Some(2e9), None));
        assert_eq!(
            (hour.start_us, hour.max_goodput_bps, hour.verdict.as_deref()),
            (0, Some(3e9), Some("loss"))
        );
    }

    #[test]
    fn an_archive_of_the_fourth_version_gets_options() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let mut archive = Archive::open(&path, None).unwrap();
        archive.put(&row("a/3", 9), &[]).unwrap();
        let before = archive.pairs().unwrap();
        drop(archive);
        // Reverts what this version changed in the tables of the fourth.
        let old = rusqlite::Connection::open(&path).unwrap();
        let hours = third_version();
        let (_, hours) = hours.split_once("CREATE TABLE hours").unwrap();
        let (hours, _) = hours.split_once("CREATE TABLE newest").unwrap();
        old.execute_batch(&format!(
            "ALTER TABLE tests DROP COLUMN options;
             ALTER TABLE pairs DROP COLUMN throughput_options; ALTER TABLE pairs DROP COLUMN latency_options;
             DROP TABLE hours; CREATE TABLE hours{hours}
             {}",
            Format { version: FOURTH_VERSION, ..FORMAT }.pragmas()
        ))
        .unwrap();
        drop(old);
        for _ in 0..2 {
            let archive = Archive::open(&path, None).unwrap();
            assert_eq!(archive.pairs().unwrap(), before);
            assert_eq!(archive.get("a/3").unwrap(), Some(row("a/3", 9)));
            check_hour(&archive);
        }
    }

    #[test]
    fn an_archive_of_the_third_version_is_converted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let old = rusqlite::Connection::open(&path).unwrap();
        let format = Format { version: THIRD_VERSION, ..FORMAT };
        old.execute_batch(&format!("{} {}", third_version(), format.pragmas())).unwrap();
        drop(old);
        let mut archive = Archive::open(&path, None).unwrap();
        check_third_version(&mut archive);
        let pairs = archive.pairs().unwrap();
        drop(archive);
        // The second opening converts nothing.
        assert_eq!(Archive::open(&path, None).unwrap().pairs().unwrap(), pairs);
    }
}
