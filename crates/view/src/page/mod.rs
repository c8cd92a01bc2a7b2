//! The local page: a small server for one browser, and the series of records at any zoom without waiting.
//!
//! A table's columns are read once into pyramids of least and largest values (`pyramid`), of the measures asked for alone; what is
//! zoomed to closely is read from the file sample by sample (`layer`). The page itself is built from `web/` into
//! `crates/view/page/`, so building this crate needs no Node. Nothing is written, and nothing outside the runs
//! directory is read.

mod causes;
mod documents;
mod guard;
mod layer;
mod marks;
mod measure;
mod pyramid;
mod server;
mod store;
mod sweeps;
mod topology;
mod wire;

pub use documents::{KnownFlow, KnownRun, RunItem};
pub use server::{Page, PageError, PageOptions};
pub use sweeps::gather_published;
