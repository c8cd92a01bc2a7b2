//! `longfat agent demo`: six agents on an emulated network, tests between all of them, and a fault that
//! appears after a while.

mod points;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use agent::{MeshDocument, StopHandle};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use lab::StandingLab;
use serde_json::json;
use units::Time;

use self::points::{Points, TEST_EVERY};
use super::{SCHEMA, failure};
use crate::{
    commands::lab::standing::{self, UpArgs, free_name},
    exit::chain,
    interrupt, output,
};

/// The network.
const NETWORK: &str = include_str!("network.toml");
/// The names of the points, as in the network; the first one creates the mesh and has the page.
const POINTS: [&str; 6] = ["tokyo", "kashima", "fukuoka", "busan", "losangeles", "washington"];
/// The point whose receive buffers are reduced, and the link that then loses packets.
const FAULTY: &str = "washington";
const FAULTY_LINK: &str = "tyo-lax";
/// The receive buffers after the fault: defaults of 20 years ago, as a newly installed machine may have.
const SMALL_BUFFERS: &str = "4096 65536 262144";
/// Loss after the fault.
const LOSS: &str = "0.3%";
/// Interval at which the mesh is polled for changes.
const POLL: Duration = Duration::from_secs(1);

/// Options of `agent demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Time from the first tests to the fault
    #[arg(long, value_name = "TIME", default_value = "60s")]
    fault_after: Time,
    /// The fault: small receive buffers at washington, or a loss of 0.3 % of the packets on the link across
    /// the Pacific
    #[arg(long, value_enum, default_value_t = Fault::ReceiveBuffer)]
    fault: Fault,
    /// Port of the page on this machine, 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// End after this time [default: on Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<Time>,
}

/// A fault of the network or of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fault {
    ReceiveBuffer,
    Loss,
    None,
}

/// A lab that is taken down when this is dropped.
struct Lab(StandingLab);

impl Lab {
    fn up() -> anyhow::Result<Lab> {
        let directory = tempfile::tempdir().context("cannot create a directory for the network's file")?;
        let file = directory.path().join("mesh-demo.toml");
        output::file(&file, NETWORK)?;
        let mut args = UpArgs::of(&file);
        args.name = Some(free_name("mesh-demo", &standing::names()?));
        let name = standing::start(&args)?;
        Ok(Lab(standing::find(Some(&name))?))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = standing::end(&self.0) {
            output::note(&chain(&error));
        }
    }
}

/// Runs the demo until a signal.
pub fn run(args: &DemoArgs, json: bool) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("cannot listen on port {}", args.port))?;
    let url = format!("http://{}/", listener.local_addr().context("cannot find the port")?);
    let directory = tempfile::tempdir().context("cannot create a directory for the points")?;
    let lab = Lab::up()?;
    if !json {
        output::note("longfat: the network is up; six points join a mesh");
    }
    // Dropped before the lab: the agents end in order.
    let mut points = Points::start(&lab.0, directory.path(), &POINTS, &stop)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(());
    }
    let state = points.state(POINTS[0]);
    let page = StopHandle::default();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| agent::serve_interface(listener, &state, &page));
        let watched = announce(args, json, &url, &lab.0)
            .and_then(|()| watch(args, json, &lab.0, &mut points, &state, &stop, || serving.is_finished()));
        page.stop();
        match serving.join() {
            Ok(served) => served.map_err(failure).and(watched),
            Err(_) => bail!("the server of the page panicked; please report this"),
        }
    })
}

fn announce(args: &DemoArgs, json: bool, url: &str, lab: &StandingLab) -> anyhow::Result<()> {
    if json {
        return output::json(&json!({ "schema": SCHEMA, "url": url, "lab": lab.name, "points": POINTS }));
    }
    let fault = match args.fault {
        Fault::None => String::new(),
        _ => format!(" A fault appears after {}.", args.fault_after),
    };
    output::prose(&format!(
        "The page of the mesh:\n\n  {url}\n\nEach of the 30 pairs is tested every {TEST_EVERY}.{fault} Press Ctrl-C to stop.\n\
         To run a program on a point:\n  longfat lab exec --lab {} kashima -- ping washington",
        lab.name
    ))
}

/// Polls the mesh until the end, and causes the fault. Prints each change of a cause.
fn watch(
    args: &DemoArgs,
    json: bool,
    lab: &StandingLab,
    points: &mut Points,
    state: &std::path::Path,
    stop: &AtomicBool,
    has_ended: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut begin: Option<Instant> = None;
    let mut is_faulty = args.fault == Fault::None;
    let mut causes = BTreeMap::new();
    let started = Instant::now();
    while !stop.load(Ordering::Relaxed) && !has_ended() {
        points.check()?;
        // Requests may fail while the machine is busy; agents that have ended are detected above.
        if let Ok(mesh) = agent::known_mesh(state) {
            if mesh.pairs.iter().any(|pair| pair.cause.is_some()) {
                begin.get_or_insert_with(Instant::now);
            }
            if !json {
                print_changes(&mesh, &mut causes)?;
            }
        }
        let since = begin.map(|begin| begin.elapsed()).unwrap_or_default();
        if begin.is_some() && !is_faulty && since >= args.fault_after.to_duration() {
            is_faulty = true;
            let what = cause_fault(args.fault, lab)?;
            if !json {
                output::prose(&format!("{}  fault: {what}", clock()))?;
            }
        }
        if args.duration.is_some_and(|duration| started.elapsed() >= duration.to_duration()) {
            break;
        }
        sleep(POLL);
    }
    Ok(())
}

/// The time of day, as the page shows it.
fn clock() -> String {
    jiff::Zoned::now().strftime("%H:%M:%S").to_string()
}

fn print_changes(mesh: &MeshDocument, causes: &mut BTreeMap<(String, String), String>) -> anyhow::Result<()> {
    for pair in &mesh.pairs {
        let Some(text) = &pair.cause_text else { continue };
        let key = (pair.from.clone(), pair.to.clone());
        let before = causes.insert(key, text.clone());
        if let Some(before) = before.filter(|before| before != text) {
            let (from, to) = (&pair.from, &pair.to);
            output::prose(&format!("{}  {from} to {to}: {text} (was {before})", clock()))?;
        }
    }
    Ok(())
}

/// Causes the fault. Returns its description.
fn cause_fault(fault: Fault, lab: &StandingLab) -> anyhow::Result<String> {
    match fault {
        Fault::ReceiveBuffer => {
            let line = format!("echo '{SMALL_BUFFERS}' > /proc/sys/net/ipv4/tcp_rmem");
            let status = standing::on_host(&lab.name, FAULTY, &line)?;
            if !status.success() {
                bail!("the receive buffers of {FAULTY} cannot be changed: {status}");
            }
            Ok(format!("net.ipv4.tcp_rmem of {FAULTY} is now {SMALL_BUFFERS}"))
        }
        Fault::Loss => {
            let words = ["link", FAULTY_LINK, "forward", "loss", LOSS].map(str::to_owned);
            standing::send_command(lab, words.to_vec())?;
            Ok(format!("the link {FAULTY_LINK} loses {LOSS} of the packets"))
        }
        Fault::None => Ok(String::new()),
    }
}
