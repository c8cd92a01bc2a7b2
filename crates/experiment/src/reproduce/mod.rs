//! The published experiments: the catalogue of their results, the built-in scenarios, and the runs that reproduce them.

mod catalogue;
mod plan;
mod sensitivity;
mod shipped;

pub use catalogue::{CATALOGUE, CatalogueEntry, NotRun};
pub use plan::Plan;
pub use sensitivity::{Study, StudySweep, studies};
pub use shipped::experiments;
