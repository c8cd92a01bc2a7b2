//! The tests of this crate, one program: each file is a module, and linking costs once.

mod engines;
mod page;
mod page_site;
mod page_types;
mod pictures;
mod synthetic;
mod tables;
