//! The archive of a point: tests and their figures, an index over the records.
//!
//! A reservation that this point leads gets a row when its test starts, or when it is certain that the test
//! will not run. Each result that another lead has sent gets a row too. A row is on the disk before the
//! calendar records the test's end. It stays in the outbox until the other points have confirmed it.
//!
//! The same transaction updates the statistics of each pair of points: counts, the best goodput, the newest
//! results, and changes of the cause ([`pairs`], [`causes`]). Old rows become hourly averages
//! ([`retention`]).
//!
//! Each point has an embedded archive, an SQLite file. A mesh may also have a common archive in PostgreSQL
//! ([`forward`]), with the same tables and the same statements ([`sql`](crate::database::sql)). Only embedded
//! archives have the tables of rows to be sent (`outbox`, `spool`), and the acknowledgements and mutes of
//! alerts ([`attention`]).

mod attention;
mod causes;
mod columns;
mod common;
mod conversion;
mod filter;
mod forward;
mod pairs;
mod retention;
mod rows;
mod statistics;
mod store;
mod tables;

pub use attention::{Acknowledgement, Mute};
pub(crate) use attention::{AlertProgress, AlertReceiver, Attention, Decision, EACH};
pub use causes::CauseChange;
pub use filter::Filter;
pub(crate) use forward::Forwarder;
#[cfg(test)]
pub(crate) use pairs::{Conclusion, NewestProbe, NewestResult, NewestTrace, TestStart};
pub use pairs::{PairFacts, TestCounts};
pub use retention::{HourRow, Retention};
pub(crate) use store::Archive;
