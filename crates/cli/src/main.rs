//! longfat: a workbench for TCP on long fat networks.

mod app;
mod bdp;
mod cc_command;
mod cc_command_check;
mod cc_command_list;
mod diagnose_command;
mod diagnose_text;
mod exit;
mod export_command;
mod guest_command;
mod import_capture;
mod import_command;
mod interrupt;
mod iperf_values;
mod kernel_command;
mod kernel_progress;
mod lab_check;
mod lab_command;
mod manual;
mod measured_path;
mod open;
mod output;
mod output_queue;
mod path_available;
mod path_datagrams;
mod path_facts;
mod path_mtu;
mod path_test;
mod probe_command;
mod probe_text;
mod progress;
mod records;
mod reproduce_command;
mod run;
mod scenario_command;
mod serve_command;
mod shell;
mod standing;
mod sweep_command;
mod tc_shim;
mod test_args;
mod test_command;
mod test_teller;
mod test_text;
mod tune_command;
mod tune_text;
mod unattended;
mod view_command;
mod watch_command;

fn main() -> std::process::ExitCode {
    match tc_shim::is_called() {
        true => tc_shim::main(),
        false => app::main(),
    }
}
