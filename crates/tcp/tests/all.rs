//! The tests of this crate in one program: each file is a module, and only one program is linked.

mod limits;
mod linux24;
mod marks;
mod pair;
mod reference;
mod spurious;
mod stalls;
mod timeouts;
mod transfer;
mod writes;
