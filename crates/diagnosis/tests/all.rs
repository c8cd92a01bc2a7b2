//! The tests of this crate, one program: each file is a module, and linking costs once.

mod cases;
mod generated;
mod limits;
mod receiver;
mod virtual_path;
