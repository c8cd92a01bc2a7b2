//! The tests of this crate: one program with a module per file, so that only one program is linked.

mod engines;
mod page;
mod page_site;
mod page_types;
mod pictures;
mod synthetic;
mod tables;
