//! The tests of this crate, one program: each file is a module, and linking costs once.

mod datagrams;
mod events;
mod kernels;
mod path_mtu;
mod pings;
mod random;
mod reference;
mod sampling;
mod support;
mod transfers;
mod xcp;
