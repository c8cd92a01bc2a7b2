//! The local page: a small server for browsers of one user that draws the series of records at any zoom level
//! without delay.
//!
//! The columns of requested measures are read once into pyramids of minima and maxima (`pyramid`); short
//! spans are read from the file sample by sample (`layer`). The page is built from `web/` into
//! `crates/view/page/`, so building this crate needs no Node. The server writes nothing and reads nothing
//! outside the runs directory.

mod causes;
mod documents;
mod files;
mod guard;
mod layer;
mod marks;
mod measure;
mod pyramid;
mod response;
mod server;
mod store;
mod sweeps;
mod topology;
mod wire;

pub use documents::{KnownFlow, KnownRun, RunItem};
pub use files::{PageContent, page_files, restrict_page};
pub use guard::{Browsers, names_loopback};
pub use server::{Page, PageError, PageOptions};
pub use sweeps::gather_published;
