//! Creates the tables of an embedded archive, converts those of earlier versions, and prepares the spool.

use super::{
    columns::{COLUMNS, read},
    pairs,
    tables::{
        ATTENTION, FIFTH_VERSION, FIRST_VERSION, FORMAT, FOURTH_VERSION, OUTBOX, PAIR_PATH_FIGURES,
        PATH_FIGURES, SECOND_VERSION, SPOOL, THIRD_VERSION, add_columns, tables,
    },
};
use crate::database::sql::{self, Database, Field, Row, read_first, values};

/// Length of the spool's random name, bytes.
const SPOOL_NAME_BYTES: usize = 16;

/// Statements that move the hourly averages of an earlier version into this version's table. Before the
/// fifth, tests had no options.
fn restore_hours(version: i64) -> String {
    let options = if version == FIFTH_VERSION { "options" } else { "''" };
    let columns = "hour_us, finished, failed, not_run, goodputs, goodput_sum_bps, min_goodput_bps, max_goodput_bps, losses, loss_sum,
        rtts, rtt_sum_us, min_rtt_us, verdict";
    format!(
        "INSERT INTO hours (lead, peer, kind, options, {columns})
         SELECT lead, peer, kind, {options}, {columns} FROM old_hours;
         DROP TABLE old_hours"
    )
}

/// Statements that change the tables of an earlier version, from the second on, so that those of this version
/// can be created beside them. After creating the tables, run [`restore_rows`].
pub(super) fn prepare_tables(version: i64) -> String {
    let path_figures = add_columns("tests", &PATH_FIGURES);
    let options = match version {
        FIFTH_VERSION => String::new(),
        _ => add_columns("tests", &["options TEXT"]),
    };
    let pairs = match version {
        FIFTH_VERSION => add_columns("pairs", &PAIR_PATH_FIGURES),
        FOURTH_VERSION => {
            let options = add_columns("pairs", &["throughput_options TEXT", "latency_options TEXT"]);
            options + &add_columns("pairs", &PAIR_PATH_FIGURES)
        }
        _ => "ALTER TABLE pairs RENAME TO old_pairs;".into(),
    };
    // Copies of tests, with the same columns.
    let newest = match version {
        THIRD_VERSION => add_columns("newest", &["options TEXT"]) + &add_columns("newest", &PATH_FIGURES),
        _ => String::new(),
    };
    // SQLite reads a whole strict table for each column that is added to it, so that copying the hourly
    // averages once is faster.
    format!(
        "{options}{path_figures}
         ALTER TABLE hours RENAME TO old_hours;
         DROP INDEX IF EXISTS hours_by_time;
         {pairs}{newest}"
    )
}

/// Moves the rows of an earlier version, from the second on, into the tables of this version.
pub(super) fn restore_rows(database: &dyn Database, version: i64) -> sql::Result<()> {
    database.convert(&restore_hours(version))?;
    if matches!(version, SECOND_VERSION | THIRD_VERSION) {
        pairs::convert(database, version == THIRD_VERSION)?;
    }
    database.convert(pairs::FIND_NEWEST_TESTS)
}

/// Creates the missing tables of an embedded archive, and converts an archive of an earlier `version`.
pub(super) fn create(database: &dyn Database, version: Option<i64>) -> sql::Result<()> {
    let old = version.filter(|version| *version != FORMAT.version);
    match old {
        None => {}
        Some(FIRST_VERSION) => {
            database.batch(&add_columns("tests", &["reason_kind TEXT", "options TEXT"]))?;
            database.batch(&add_columns("tests", &PATH_FIGURES))?;
        }
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
    restore_rows(database, version)
}

/// Prepares the spool, or empties it if no results are forwarded. A new spool begins with all tests that the
/// point `own` has led.
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
        TestRow,
        archive::{Archive, Filter, PairFacts, Retention, TestCounts, retention::DAY_US},
        sqlite::Format,
        test::Figures,
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
        let expected: [Option<(String, i64)>; 2] =
            [Some(("throughput".into(), 9)), Some(("diagnose".into(), 2))];
        assert_eq!([b, c].map(tested), expected);
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

    /// Kind and start of the newest test with a result, whatever its options.
    fn tested(pair: &PairFacts) -> Option<(String, i64)> {
        pair.tested.as_ref().map(|tested| (tested.kind.clone(), tested.start_us))
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

    fn drop_columns(table: &str, columns: &[&str]) -> String {
        let names = columns.iter().map(|column| column.split(' ').next().unwrap());
        names.map(|name| format!("ALTER TABLE {table} DROP COLUMN {name};")).collect()
    }

    #[test]
    fn an_archive_of_the_fourth_version_gets_options() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let mut archive = Archive::open(&path, None).unwrap();
        archive.put(&row("a/3", 9), &[]).unwrap();
        let before = archive.pairs().unwrap();
        drop(archive);
        // Reverts what later versions changed in the tables of the fourth.
        let old = rusqlite::Connection::open(&path).unwrap();
        let hours = third_version();
        let (_, hours) = hours.split_once("CREATE TABLE hours").unwrap();
        let (hours, _) = hours.split_once("CREATE TABLE newest").unwrap();
        old.execute_batch(&format!(
            "ALTER TABLE tests DROP COLUMN options;
             ALTER TABLE pairs DROP COLUMN throughput_options; ALTER TABLE pairs DROP COLUMN latency_options;
             {} {}
             DROP TABLE hours; CREATE TABLE hours{hours}
             {}",
            drop_columns("tests", &PATH_FIGURES),
            drop_columns("pairs", &PAIR_PATH_FIGURES),
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

    /// The tables of the fifth version, the same in SQLite and PostgreSQL, with three pairs.
    pub fn fifth_version() -> String {
        let result = |of: &str| {
            format!(
                "{of}_kind TEXT, {of}_start_us INTEGER, {of}_goodput_bps REAL, {of}_loss_share REAL, {of}_min_rtt_us REAL,
                 {of}_typical_rtt_us REAL, {of}_options TEXT"
            )
        };
        let (throughput, latency) = (result("throughput"), result("latency"));
        format!(
            "CREATE TABLE tests (
                 id TEXT NOT NULL, lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, task TEXT,
                 start_us INTEGER NOT NULL, duration_us INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT, goodput_bps REAL,
                 loss_share REAL, min_rtt_us REAL, typical_rtt_us REAL, verdict TEXT, evidence TEXT, record TEXT, reason_kind TEXT,
                 options TEXT, PRIMARY KEY (id)) STRICT;
             CREATE INDEX tests_of_pair_and_kind ON tests (lead, peer, kind, start_us);
             CREATE TABLE states (state TEXT NOT NULL, tests INTEGER NOT NULL, PRIMARY KEY (state)) STRICT;
             CREATE TABLE causes (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
                 id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
             CREATE TABLE hours (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, options TEXT NOT NULL, hour_us INTEGER NOT NULL,
                 finished INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
                 goodputs INTEGER NOT NULL, goodput_sum_bps REAL NOT NULL, min_goodput_bps REAL, max_goodput_bps REAL,
                 losses INTEGER NOT NULL, loss_sum REAL NOT NULL, rtts INTEGER NOT NULL, rtt_sum_us REAL NOT NULL, min_rtt_us REAL,
                 verdict TEXT, PRIMARY KEY (lead, peer, hour_us, kind, options)) STRICT, WITHOUT ROWID;
             CREATE INDEX hours_by_time ON hours (hour_us);
             CREATE TABLE pairs (
                 lead TEXT NOT NULL, peer TEXT NOT NULL, finished INTEGER NOT NULL, failed INTEGER NOT NULL, refused INTEGER NOT NULL,
                 not_run INTEGER NOT NULL, best_goodput_bps REAL, {throughput}, {latency}, conclusion_start_us INTEGER,
                 conclusion_cause TEXT, conclusion_reason TEXT, cause_kind TEXT, cause_start_us INTEGER, cause TEXT, cause_id TEXT,
                 PRIMARY KEY (lead, peer)) STRICT, WITHOUT ROWID;
             INSERT INTO tests VALUES ('a/3', 'a', 'b', 'throughput', NULL, 9, 10000000, 'finished', NULL, 1e9, NULL, NULL, NULL,
                 'path_rate', NULL, 'runs/x', NULL, NULL);
             INSERT INTO tests VALUES ('a/4', 'a', 'b', 'throughput', NULL, 20, 10000000, 'finished', NULL, 1e9, NULL, NULL, NULL,
                 'path_rate', NULL, 'runs/x', NULL, 'parallel=4');
             INSERT INTO tests VALUES ('a/5', 'a', 'b', 'probe', NULL, 21, 10000000, 'finished', NULL, NULL, NULL, NULL, NULL,
                 NULL, 'available bandwidth 800 Mb/s', NULL, NULL, NULL);
             INSERT INTO tests VALUES ('a/6', 'a', 'b', 'throughput', NULL, 30, 10000000, 'failed', 'b is down', NULL, NULL, NULL, NULL,
                 NULL, NULL, NULL, 'test_failed', NULL);
             INSERT INTO states VALUES ('finished', 3);
             INSERT INTO states VALUES ('failed', 1);
             INSERT INTO causes VALUES ('a', 'b', 'throughput', 9, 'path_rate', 'a/3', 0);
             INSERT INTO hours VALUES ('a', 'b', 'throughput', 'parallel=4', 0, 3, 0, 0, 3, 6e9, 1e9, 3e9, 0, 0.0, 0, 0.0, NULL, 'loss');
             INSERT INTO pairs VALUES ('a', 'b', 6, 1, 0, 0, 1e9, 'throughput', 9, 1e9, NULL, NULL, NULL, NULL,
                 'latency', 8, NULL, 0.5, 3.0, 4.0, NULL, 30, 'no_result', 'b is down', 'throughput', 9, 'path_rate', 'a/3');
             INSERT INTO pairs VALUES ('a', 'c', 1, 0, 0, 0, 1e9, 'diagnose', 2, 1e9, 0.0, 7.0, 8.0, NULL,
                 NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, 'policer', NULL, 'diagnose', 2, 'policer', 'a/1');
             INSERT INTO pairs VALUES ('a', 'd', 0, 0, 2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                 NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);"
        )
    }

    /// Checks the contents of [`fifth_version`], and that probes and traces can be added.
    pub fn check_fifth_version(archive: &mut Archive) {
        assert_eq!(archive.get("a/3").unwrap(), Some(row("a/3", 9)));
        let with_options = TestRow { options: Some("parallel=4".into()), ..row("a/4", 20) };
        assert_eq!(archive.get("a/4").unwrap(), Some(with_options));
        let evidence = Some("available bandwidth 800 Mb/s".to_string());
        let expected = Figures { evidence, ..Figures::default() };
        assert_eq!(archive.get("a/5").unwrap().unwrap().figures, expected, "texts are not read");
        let pairs = archive.pairs().unwrap();
        let [b, c, d] = &pairs[..] else { panic!("{pairs:?}") };
        assert_eq!(b.tests, TestCounts { finished: 6, failed: 1, refused: 0, not_run: 0 });
        let (shown, latency) = (b.throughput.as_ref().unwrap(), b.latency.as_ref().unwrap());
        assert_eq!((shown.start_us, shown.goodput_bps, shown.options.as_deref()), (9, Some(1e9), None));
        assert_eq!((latency.loss_share, latency.typical_rtt_us), (Some(0.5), Some(4.0)));
        assert_eq!(b.conclusion.as_ref().unwrap().reason.as_deref(), Some("b is down"));
        assert_eq!(b.cause.as_ref().unwrap().test, "a/3");
        assert_eq!((c.throughput.as_ref().unwrap().min_rtt_us, d.tests.refused), (Some(7.0), 2));
        // The newest test with a result, whatever its options; if its row is no longer kept, the newest
        // result.
        let expected: [Option<(String, i64)>; 3] =
            [Some(("throughput".into(), 20)), Some(("diagnose".into(), 2)), None];
        assert_eq!([b, c, d].map(tested), expected);
        assert!(pairs.iter().all(|pair| pair.probe.is_none() && pair.trace.is_none()), "{pairs:?}");
        assert_eq!(archive.counts().unwrap(), [("failed".to_string(), 1), ("finished".to_string(), 3)]);
        let hours = archive.hours("a", "b", 0).unwrap();
        let [hour] = &hours[..] else { panic!("{hours:?}") };
        assert_eq!((hour.finished, hour.goodput_bps, hour.verdict.as_deref()), (3, Some(2e9), Some("loss")));
        assert_eq!((hour.capacity_bps, hour.max_available_bps, hour.min_mtu_bytes), (None, None, None));

        let figures = Figures { capacity_bps: Some(1e9), available_bps: Some(8e8), ..Figures::default() };
        let probe = TestRow { kind: "probe".into(), figures, ..row("a/7", 40) };
        let figures = Figures { mtu_bytes: Some(1500), hops: Some(7), ..Figures::default() };
        let trace = TestRow { kind: "trace".into(), figures, ..row("a/8", 41) };
        for row in [&probe, &trace] {
            archive.put(row, &[]).unwrap();
            assert_eq!(archive.get(&row.id).unwrap().as_ref(), Some(row));
        }
        let b = archive.pair("a", "b").unwrap().unwrap();
        assert_eq!((b.probe.unwrap().available_bps, b.trace.unwrap().hops), (Some(8e8), Some(7)));
        // Tests of both versions are in the same hour.
        let retention = Retention { records_days: 1, tests_days: 1, hours_days: 99 };
        while archive.apply_retention_to_rows(9 * DAY_US, &retention).unwrap() {}
        let hours = archive.hours("a", "b", 0).unwrap();
        let [probes, single, parallel, traces] = &hours[..] else { panic!("{hours:?}") };
        assert_eq!((probes.finished, probes.capacity_bps), (2, Some(1e9)));
        assert_eq!((single.finished, single.failed, single.goodput_bps), (1, 1, Some(1e9)));
        assert_eq!((parallel.finished, parallel.goodput_bps), (4, Some(1.75e9)));
        assert_eq!((traces.min_mtu_bytes, traces.max_hops), (Some(1500), Some(7)));
    }

    #[test]
    fn an_archive_of_the_fifth_version_gets_the_figures_of_probes_and_traces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive.sqlite");
        let old = rusqlite::Connection::open(&path).unwrap();
        let format = Format { version: FIFTH_VERSION, ..FORMAT };
        old.execute_batch(&format!("{} {}", fifth_version(), format.pragmas())).unwrap();
        drop(old);
        let mut archive = Archive::open(&path, None).unwrap();
        check_fifth_version(&mut archive);
        let pairs = archive.pairs().unwrap();
        drop(archive);
        // The second opening converts nothing: the newest tests, whose rows have become averages, are not
        // searched again.
        assert_eq!(Archive::open(&path, None).unwrap().pairs().unwrap(), pairs);
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
