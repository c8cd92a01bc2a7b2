//! `longfat probe udpmon`: the grid of packet size and spacing, and latency by size.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use probe::{GridTrain, Method, PlanRefused, RequestResponse, UdpmonGrid, UdpmonPlan, UdpmonResult};
use probe_transport::{ArrivalStamps, Session};
use serde_json::{Value, json};
use units::{Bytes, Time, group_digits};
use view::number::{bytes, rate};

use super::{PeerArgs, SCHEMA, failed, text, udpmon_pictures, udpmon_text};
use crate::{exit::Exit, interrupt, iperf3_values, output};

/// Maximum number of trains: sizes, spacings and rounds multiplied.
const MAX_TRAINS: usize = 400;
/// Maximum spacing.
const MAX_SPACING: Duration = Duration::from_secs(1);

/// Options of `probe udpmon`.
#[derive(Debug, Args)]
pub struct UdpmonArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// Packet sizes, IP header included [default: six up to the path MTU]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(44..=9000))]
    sizes: Vec<u32>,
    /// Times between two packets, as in 0,20us,100us [default: seven, from 0 to twice the bottleneck's time
    /// for the largest packet]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = spacing)]
    spacings: Vec<Time>,
    /// Number of packets of each train
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(12..=20_000))]
    packets: u32,
    /// Number of trains of each size and spacing
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Number of requests of each size in a round
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    requests: u32,
    /// Refuse to send more than this in total, as in 100MB
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<Bytes>,
    /// Write pictures (SVG), cells.csv, packets.csv, latency.csv and udpmon.json to this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Parses a spacing.
fn spacing(text: &str) -> Result<Time, String> {
    match iperf3_values::time(text)? {
        time if time <= MAX_SPACING => Ok(Time::from_nanos(time.as_nanos() as u64)),
        _ => Err(format!("{text:?} is more than a second; write {text}us for microseconds")),
    }
}

/// A completed measurement.
struct Udpmon<'a> {
    host: &'a str,
    result: UdpmonResult,
    stamps: &'static str,
    document: Value,
    trains: &'a [GridTrain],
}

/// Runs the command.
pub fn run(args: &UdpmonArgs, json: bool) -> anyhow::Result<()> {
    let peer = &args.peer;
    // Checked before anything is sent.
    if let Some(dir) = &args.output {
        fs::create_dir_all(dir)
            .map_err(|e| Exit::BadInput(format!("cannot create {}: {e}", dir.display())))?;
    }
    check_trains(args)?;
    let stop = interrupt::flag()?;
    let failed = |error| failed(&peer.host, error);
    output::note("longfat: the path's MTU");
    let mut session = Session::open(&peer.session_options(), &stop).map_err(failed)?;
    let plan = plan(args, &session)?;
    check_load(args, &plan)?;
    let mut doing = |step: &str| output::note(&format!("longfat: {step}"));
    let limits = session.limits();
    let mut method = UdpmonGrid::new(plan.clone(), limits);
    session.run(&mut method, &stop, &mut doing).map_err(failed)?;
    let grid = method.result();
    let largest_us = grid.bottleneck.last().map(|point| point.spacing_us);
    let mut requests = RequestResponse::new(&plan, limits, largest_us);
    let latency = session.request_response(&mut requests, &stop, &mut doing).map_err(failed)?;
    let result = UdpmonResult::new(grid, latency);
    let stamps = match session.arrival_stamps() {
        ArrivalStamps::Software => "software",
        ArrivalStamps::Hardware => "hardware",
    };
    let (path_mtu, load) = (session.path_mtu().clone(), session.load());
    let document = json!({
        "schema": SCHEMA,
        "kind": "udpmon",
        "host": peer.host,
        "answer": result,
        "receive_timestamps": stamps,
        "path_mtu": path_mtu,
        "load": load,
        "max_rate_bps": peer.max_rate.0,
    });
    let measured = Udpmon { host: &peer.host, result, stamps, document, trains: method.trains() };
    if let Some(dir) = &args.output {
        measured.write(dir)?;
    }
    if json {
        return output::json(&measured.document);
    }
    output::prose(&format!(
        "{}{}\n{}\n{}",
        udpmon_text::sentences(&measured.result, measured.stamps),
        text::path_mtu(&path_mtu),
        text::validity(&measured.result.validity),
        text::load(&load, peer.max_rate)
    ))
}

fn check_trains(args: &UdpmonArgs) -> anyhow::Result<()> {
    let trains = UdpmonPlan::count_trains(args.sizes.len(), args.spacings.len(), args.rounds as usize);
    if trains > MAX_TRAINS {
        return Err(Exit::BadInput(format!(
            "sizes, spacings and rounds make {trains} trains; at most {MAX_TRAINS} are possible"
        ))
        .into());
    }
    Ok(())
}

fn plan(args: &UdpmonArgs, session: &Session) -> anyhow::Result<UdpmonPlan> {
    let mtu = session.limits().mtu;
    let mut sizes = if args.sizes.is_empty() { UdpmonPlan::default_sizes(mtu) } else { args.sizes.clone() };
    sizes.sort_unstable();
    sizes.dedup();
    if let Some(large) = sizes.iter().find(|size| **size > mtu) {
        let message = format!("--sizes: packets of {large} bytes exceed the path MTU of {mtu} bytes");
        return Err(Exit::BadInput(message).into());
    }
    let smallest = session.smallest_packet();
    if let Some(small) = sizes.iter().find(|size| **size < smallest) {
        let message = format!("--sizes: {small} bytes; packets have at least {smallest} bytes");
        return Err(Exit::BadInput(message).into());
    }
    let mut spacings = args.spacings.clone();
    spacings.sort_unstable();
    spacings.dedup();
    Ok(UdpmonPlan {
        sizes,
        spacings: (!spacings.is_empty()).then_some(spacings),
        packets: args.packets as usize,
        rounds: args.rounds as usize,
        requests: args.requests as usize,
        smallest_request: session.smallest_request(),
    })
}

/// Prints the load that will be sent, and refuses a load above `--max-rate` or `--max-bytes`.
fn check_load(args: &UdpmonArgs, plan: &UdpmonPlan) -> anyhow::Result<()> {
    let (packets, total) = plan.load();
    let max_bps = args.peer.max_rate.0;
    output::note(&format!(
        "longfat: {} trains and {} requests: {} packets, {}, at most {} within a second, so at least {}",
        plan.trains(),
        group_digits(plan.request_count()),
        group_digits(packets),
        bytes(total as f64),
        rate(max_bps as f64),
        view::number::seconds(plan.min_duration_s(max_bps)),
    ));
    let message = match plan.check_load(max_bps, args.max_bytes.map(|limit| limit.0)) {
        Ok(()) => return Ok(()),
        Err(PlanRefused::Train { bytes_per_second }) => format!(
            "a train has {} within a second, more than --max-rate {}; use fewer --packets",
            bytes(bytes_per_second as f64),
            args.peer.max_rate
        ),
        Err(PlanRefused::Total { bytes: sent }) => format!(
            "the probe would send {}, more than --max-bytes {}; use fewer --sizes, --spacings, --packets or --rounds",
            bytes(sent as f64),
            args.max_bytes.map(|limit| limit.to_string()).unwrap_or_default()
        ),
    };
    Err(Exit::BadInput(message).into())
}

impl Udpmon<'_> {
    /// Writes the pictures, the rows and the document.
    fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let write = |name: &str, text: &str| {
            let file = dir.join(name);
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
        };
        for (name, svg) in udpmon_pictures::all(&self.result, self.trains, self.host) {
            write(name, &svg)?;
        }
        write("cells.csv", &udpmon_text::cells_csv(&self.result.grid))?;
        write("packets.csv", &udpmon_text::packets_csv(&self.result.grid, self.trains))?;
        write("latency.csv", &udpmon_text::latency_csv(&self.result.latency))?;
        write("udpmon.json", &format!("{:#}\n", self.document))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings_are_limited_to_a_second() {
        assert_eq!(spacing("0"), Ok(Time::ZERO));
        assert_eq!(spacing("20us"), Ok(Time::from_nanos(20_000)));
        assert!(spacing("20").unwrap_err().contains("20us"));
        assert!(spacing("fast").is_err());
    }
}
