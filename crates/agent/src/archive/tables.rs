//! The tables of archives, and the versions of their format.

use super::columns::DECLARATIONS;
use crate::sqlite::Format;

/// SQLite's application_id of the files that this program writes: "LFar".
pub(super) const FORMAT: Format = Format { application: 0x4c46_6172, version: 6 };

/// Version of the format without pairs, causes and hours.
pub(super) const FIRST_VERSION: i64 = 1;
/// Version of the format without the newest tests, counts of states, and the spool.
pub(super) const SECOND_VERSION: i64 = 2;
/// Version of the format with the newest tests in a separate table.
pub(super) const THIRD_VERSION: i64 = 3;
/// Version of the format without options of tests.
pub(super) const FOURTH_VERSION: i64 = 4;
/// Version of the format without figures of probes and traces, and without the newest tests whatever their
/// options.
pub(super) const FIFTH_VERSION: i64 = 5;

/// The columns of `tests` with the figures of probes and traces, which versions before the sixth lack.
pub(super) const PATH_FIGURES: [&str; 4] =
    ["capacity_bps REAL", "available_bps REAL", "mtu_bytes INTEGER", "hops INTEGER"];

/// The columns of `pairs` that versions before the sixth lack: the newest test with a result whatever its
/// options, probe and trace.
pub(super) const PAIR_PATH_FIGURES: [&str; 8] = [
    "tested_kind TEXT",
    "tested_start_us INTEGER",
    "probe_start_us INTEGER",
    "probe_capacity_bps REAL",
    "probe_available_bps REAL",
    "trace_start_us INTEGER",
    "trace_mtu_bytes INTEGER",
    "trace_hops INTEGER",
];

/// The columns of `hours` with the figures of probes and traces. A path MTU and a number of hops have no
/// useful mean. The defaults are for rows that are copied from earlier versions.
const HOUR_PATH_FIGURES: [&str; 12] = [
    "capacities INTEGER NOT NULL DEFAULT 0",
    "capacity_sum_bps REAL NOT NULL DEFAULT 0.0",
    "min_capacity_bps REAL",
    "max_capacity_bps REAL",
    "availables INTEGER NOT NULL DEFAULT 0",
    "available_sum_bps REAL NOT NULL DEFAULT 0.0",
    "min_available_bps REAL",
    "max_available_bps REAL",
    "min_mtu_bytes INTEGER",
    "max_mtu_bytes INTEGER",
    "min_hops INTEGER",
    "max_hops INTEGER",
];

/// Changes of causes. They have the kind of test, because throughput tests and diagnoses name causes
/// differently.
const CAUSES: &str = "
    CREATE TABLE IF NOT EXISTS causes (
        lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL, cause TEXT NOT NULL,
        id TEXT NOT NULL, is_pending INTEGER NOT NULL, PRIMARY KEY (lead, peer, kind, start_us)) STRICT;
    CREATE INDEX IF NOT EXISTS causes_pending ON causes (start_us) WHERE is_pending = 1;";

/// The rows that have to be sent to other points, in embedded archives only.
pub(super) const OUTBOX: &str = "
    CREATE TABLE IF NOT EXISTS outbox (id TEXT NOT NULL, point TEXT NOT NULL, PRIMARY KEY (id, point)) STRICT;
    CREATE INDEX IF NOT EXISTS outbox_by_point ON outbox (point);";

/// The spool, in embedded archives only. Its name distinguishes it from an earlier spool of the same point,
/// whose file was lost and whose numbers differ.
pub(super) const SPOOL: &str = "
    CREATE TABLE IF NOT EXISTS spool (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS spool_by_id ON spool (id);
    CREATE TABLE IF NOT EXISTS spool_name (name TEXT NOT NULL) STRICT;";

/// Acknowledgements, mutes and the progress of alerts, in embedded archives only: each point sends its own
/// alerts. `found_us`: when the change was found, which may be long after the test at which the cause begins.
pub(super) const ATTENTION: &str = "
    CREATE TABLE IF NOT EXISTS alert_progress (lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, start_us INTEGER NOT NULL,
        cause TEXT NOT NULL, found_us INTEGER NOT NULL, accepted TEXT NOT NULL, PRIMARY KEY (lead, peer, kind, start_us, cause)) STRICT;
    CREATE TABLE IF NOT EXISTS acknowledged (lead TEXT NOT NULL, peer TEXT NOT NULL, since_us INTEGER NOT NULL, user TEXT NOT NULL,
        text TEXT NOT NULL, at_us INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;
    CREATE TABLE IF NOT EXISTS mutes (lead TEXT NOT NULL, peer TEXT NOT NULL, until_us INTEGER NOT NULL, user TEXT NOT NULL,
        text TEXT NOT NULL, at_us INTEGER NOT NULL, PRIMARY KEY (lead, peer)) STRICT;";

/// The tables of both databases.
pub(super) fn tables() -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS tests ({DECLARATIONS}, PRIMARY KEY (id)) STRICT;
         CREATE INDEX IF NOT EXISTS tests_of_pair ON tests (lead, peer, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_pair_and_kind ON tests (lead, peer, kind, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_lead ON tests (lead, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_lead_and_kind ON tests (lead, kind, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_peer ON tests (peer, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_peer_and_kind ON tests (peer, kind, start_us);
         CREATE INDEX IF NOT EXISTS tests_of_kind ON tests (kind, start_us);
         CREATE INDEX IF NOT EXISTS tests_by_start ON tests (start_us);
         CREATE INDEX IF NOT EXISTS tests_running ON tests (start_us) WHERE state = 'running';
         CREATE INDEX IF NOT EXISTS tests_with_record ON tests (start_us) WHERE record IS NOT NULL;
         CREATE TABLE IF NOT EXISTS states (state TEXT NOT NULL, tests INTEGER NOT NULL, PRIMARY KEY (state)) STRICT;
         {} {} {}",
        pairs(),
        CAUSES,
        hours(),
    )
}

/// Statements that add columns to a table.
pub(super) fn add_columns(table: &str, columns: &[&str]) -> String {
    columns.iter().map(|column| format!("ALTER TABLE {table} ADD COLUMN {column};\n")).collect()
}

/// Hourly averages: sums and counts instead of means, so that a row that arrives late can be added. Tests
/// with different options have different averages; `options` is empty for tests without options. The primary
/// key keeps the hours of a pair together, because a year of them is read at once.
fn hours() -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS hours (
             lead TEXT NOT NULL, peer TEXT NOT NULL, kind TEXT NOT NULL, options TEXT NOT NULL, hour_us INTEGER NOT NULL,
             finished INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
             goodputs INTEGER NOT NULL, goodput_sum_bps REAL NOT NULL, min_goodput_bps REAL, max_goodput_bps REAL,
             losses INTEGER NOT NULL, loss_sum REAL NOT NULL, rtts INTEGER NOT NULL, rtt_sum_us REAL NOT NULL, min_rtt_us REAL,
             verdict TEXT, {}, PRIMARY KEY (lead, peer, hour_us, kind, options)) STRICT, WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS hours_by_time ON hours (hour_us);",
        HOUR_PATH_FIGURES.join(", ")
    )
}

/// The statistics of pairs.
fn pairs() -> String {
    let result = |of: &str| {
        format!(
            "{of}_kind TEXT, {of}_start_us INTEGER, {of}_goodput_bps REAL, {of}_loss_share REAL, {of}_min_rtt_us REAL,
             {of}_typical_rtt_us REAL, {of}_options TEXT"
        )
    };
    format!(
        "CREATE TABLE IF NOT EXISTS pairs (
             lead TEXT NOT NULL, peer TEXT NOT NULL, finished INTEGER NOT NULL, failed INTEGER NOT NULL, refused INTEGER NOT NULL,
             not_run INTEGER NOT NULL, best_goodput_bps REAL, {}, {}, conclusion_start_us INTEGER, conclusion_cause TEXT,
             conclusion_reason TEXT, cause_kind TEXT, cause_start_us INTEGER, cause TEXT, cause_id TEXT, {},
             PRIMARY KEY (lead, peer)) STRICT, WITHOUT ROWID;",
        result("throughput"),
        result("latency"),
        PAIR_PATH_FIGURES.join(", "),
    )
}
