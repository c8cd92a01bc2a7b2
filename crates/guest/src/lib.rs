//! Kernels for User-Mode Linux: built from a distribution's source package or a kernel tree, kept in the user's cache, found
//! by version or name.
//!
//! [`build`] makes one, [`Cache`] keeps them, [`Image`] is one of them. Nothing here needs root, and nothing is written
//! outside the cache.
//!
//! ```no_run
//! use guest::Cache;
//!
//! let newest = Cache::of_this_user()?.find(Some("6.1"))?;
//! newest.verify()?;
//! println!("{} is {}", newest.release, newest.path.display());
//! # Ok::<(), guest::Error>(())
//! ```

mod apt;
mod build;
mod cache;
mod children;
mod config;
mod error;
mod image;
mod package;
mod progress;
mod sys;
mod tools;
mod tree;
mod uml;
mod work;

pub use build::{Outcome, Request, Source, build};
pub use cache::Cache;
pub use error::Error;
pub use image::{Image, Origin, SEED_VARIABLE};
pub use progress::{Progress, Stage};

/// What functions here return.
pub type Result<T> = std::result::Result<T, Error>;
