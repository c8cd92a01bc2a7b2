//! The tests of this crate in one program: each file is a module, and only one program is linked.

mod copies;
mod driver;
mod foreign;
mod golden_bbr;
mod golden_bbr3;
mod golden_bic;
mod golden_cubic;
mod golden_dctcp;
mod golden_fast;
mod golden_griddt;
mod golden_highspeed;
mod golden_htcp;
mod golden_hybla;
mod golden_illinois;
mod golden_linux;
mod golden_reno;
mod golden_sawtooth;
mod golden_scalable;
mod golden_vegas;
mod golden_westwood;
mod ideal;
mod kernel;
mod native;
mod properties;
mod selftests;
mod support;
