//! The published experiments: their results by id, the scenarios that come with the program, and the runs that they need.

mod catalogue;
mod plan;
mod sensitivity;
mod shipped;

pub use catalogue::{CATALOGUE, Entry};
pub use plan::Plan;
pub use sensitivity::{Study, StudySweep, studies};
pub use shipped::experiments;
