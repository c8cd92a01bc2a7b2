//! The commands, a module each: `mod.rs` has the arguments and what the command does, `text.rs` the tables and sentences it prints.

pub mod agent;
pub mod bdp;
pub mod cc;
pub mod completions;
pub mod config;
pub mod diagnose;
pub mod export;
pub mod guest;
pub mod import;
pub mod kernel;
pub mod lab;
pub mod manual;
pub mod picture;
pub mod places;
pub mod plot;
pub mod probe;
pub mod records;
pub mod reproduce;
pub mod run;
pub mod scenario;
pub mod serve;
pub mod sweep;
pub mod test;
pub mod tune;
pub mod view;
pub mod watch;
