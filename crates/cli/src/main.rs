//! longfat: a workbench for TCP on long fat networks.

mod app;
mod commands;
mod config_file;
mod exit;
mod interrupt;
mod ip_version;
mod iperf3_values;
mod log;
mod open;
mod other_tools;
mod output;
mod path_flags;
mod progress;
mod records_directory;
mod reliability;

use commands::lab::tc_shim;

fn main() -> std::process::ExitCode {
    match tc_shim::is_called() {
        true => tc_shim::main(),
        false => app::main(),
    }
}
