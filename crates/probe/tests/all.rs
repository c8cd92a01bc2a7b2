//! All integration tests of this crate as one program, so that it is linked only once; each file is a module.

mod accuracy;
mod hops;
mod udpmon;
mod virtual_path;
