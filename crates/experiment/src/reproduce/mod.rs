//! The published experiments: the catalogue of their results, the built-in scenarios, and the runs that
//! reproduce them.

mod catalogue;
mod coverage;
mod limits;
mod plan;
mod recorded;
mod sensitivity;
mod shipped;

pub use catalogue::{CATALOGUE, CatalogueEntry, NotRun};
pub use coverage::coverage;
pub use plan::{Plan, SkippedRun};
pub use recorded::recorded;
pub use sensitivity::{Study, StudySweep, studies};
pub use shipped::experiments;
