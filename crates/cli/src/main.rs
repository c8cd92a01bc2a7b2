//! longfat: a workbench for TCP on long fat networks.

mod app;
mod bdp;
mod engine;
mod exit;
mod flow_context;
mod interrupt;
mod lab_check;
mod lab_command;
mod lab_engine;
mod model_engine;
mod output;
mod progress;
mod published;
mod records;
mod run;

fn main() -> std::process::ExitCode {
    app::main()
}
