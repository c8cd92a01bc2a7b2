//! `longfat view`: serves a page that shows all runs to the browser of this machine.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::{Command, Stdio},
};

use clap::Args;
use clap_complete::ArgValueCompleter;
use experiment::reproduce::CATALOGUE;
use record::RunsLocation;
use serde_json::json;
use view::{Browsers, Page, PageError, PageOptions};

use super::completions::complete_run;
use crate::{config_file::Config, exit::Exit, interrupt, output};

/// Options of `view`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Runs to open side by side: ids, `last`, `last~1`; or a directory of records [default: list all]
    #[arg(value_name = "RUNS", add = ArgValueCompleter::new(complete_run))]
    keys: Vec<String>,
    /// Port to listen on, 0 for any free port
    #[arg(short, long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Address to listen on: with any other than loopback, other hosts can open the page, unencrypted
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Make the printed address valid for several browsers, until the command ends
    #[arg(long)]
    share_token: bool,
    /// Print the page's address and start no browser
    #[arg(long)]
    no_open: bool,
}

/// Runs the command: serves the page until Ctrl-C.
pub fn run(args: &ViewArgs, config: &Config, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let (runs, keys) = location_and_keys(args, runs);
    let requested = keys.iter().map(|key| name_on_page(&runs, key)).collect::<Result<Vec<_>, _>>()?;
    let stop = interrupt::flag()?;
    let hostname =
        std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    let options = PageOptions {
        runs: runs.clone(),
        bind: args.bind,
        port: args.port,
        requested,
        hostname,
        browsers: if args.share_token { Browsers::Several } else { Browsers::One },
        sources: sources(),
        theme: config.theme(),
    };
    let page = Page::new(options).map_err(|e| match e {
        PageError::Listen { .. } => anyhow::Error::new(Exit::BadInput(e.to_string())),
        _ => e.into(),
    })?;
    let url = page.url();
    match json {
        true => {
            output::json(&json!({ "url": url, "address": page.address(), "runs_dir": runs.to_string() }))?
        }
        false => output::text(&format!(
            "The runs in {runs}, for {}:\n\n  {url}\n\nPress Ctrl-C to stop.",
            if args.share_token { "every browser that opens this address" } else { "one browser" },
        ))?,
    }
    if !args.bind.is_loopback() {
        let who =
            if args.share_token { "every browser that opens it" } else { "the first browser to open it" };
        output::note(&format!(
            "other hosts can reach this address: {who} sees the runs, and the connection is not encrypted"
        ));
    }
    if !args.no_open && !json {
        open_browser(&page.one_time_url());
    }
    Ok(page.serve(&stop)?)
}

/// The citation of each published figure that longfat reproduces.
fn sources() -> Vec<(String, String)> {
    CATALOGUE.iter().map(|entry| (entry.id.to_owned(), entry.source().to_owned())).collect()
}

/// The location of records and the keys of runs: an argument that is a directory is the former.
fn location_and_keys(args: &ViewArgs, runs: &RunsLocation) -> (RunsLocation, Vec<String>) {
    match args.keys.as_slice() {
        [only] if Path::new(only).is_dir() && !Path::new(only).join("summary.json").exists() => {
            (Path::new(only).into(), Vec::new())
        }
        keys => (runs.clone(), keys.to_vec()),
    }
}

/// The name of a run on the page.
fn name_on_page(runs: &RunsLocation, key: &str) -> Result<String, Exit> {
    let run = runs.find(key).map_err(|e| Exit::BadInput(e.to_string()))?;
    let outside = || {
        let message = format!("{} is not in {runs}; name its directory with --runs", run.path.display());
        Exit::BadInput(message)
    };
    let entries = runs.list().map_err(|e| Exit::BadInput(e.to_string()))?;
    let path = run.path.canonicalize().map_err(|_| outside())?;
    let own = entries.iter().find(|entry| entry.path.canonicalize().is_ok_and(|own| own == path));
    own.map(|entry| format!("{}/{}", entry.scenario, entry.id)).ok_or_else(outside)
}

/// Starts the desktop's browser if there is a desktop. If this fails, the printed address still works.
fn open_browser(url: &str) {
    if std::env::var_os("DISPLAY").is_none() && std::env::var_os("WAYLAND_DISPLAY").is_none() {
        return;
    }
    let started = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = started {
        std::thread::spawn(move || child.wait());
    }
}
