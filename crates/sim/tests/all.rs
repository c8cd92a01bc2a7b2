//! The integration tests of this crate as one program: each file is a module, and linking is done once.

mod bulk;
mod datagrams;
mod events;
mod hosts;
mod kernels;
mod path_mtu;
mod pings;
mod random;
mod reference;
mod sampling;
mod support;
mod transfers;
mod xcp;
