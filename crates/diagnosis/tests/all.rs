//! The tests of this crate: one program with a module per file, so that only one program is linked.

mod cases;
mod generated;
mod limits;
mod receiver;
mod virtual_path;
