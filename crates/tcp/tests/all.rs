//! The tests of this crate, one program: each file is a module, and linking costs once.

mod limits;
mod linux24;
mod marks;
mod pair;
mod reference;
mod spurious;
mod stalls;
mod transfer;
