//! `longfat stream`: real-time streams to or from a `longfat serve`, at one or several rates.

use std::{
    net::ToSocketAddrs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use iperf3::IpVersion;
use measurement::stream::{RecordedStream, StreamRecorder, StreamTest, max_sustainable_rate};
use record::RunsLocation;
use schema::RunSummary;
use serde_json::json;
use transfer::stream::{
    Direction, RecorderOptions, StreamClient, StreamOptions, StreamSample, run_stream, send_to_recorder, vdif,
};
use units::{BitRate, Time};
use view::number;

use super::{test::args, transfer::exit};
use crate::{
    config_file::Config,
    exit::{Exit, chain},
    interrupt,
    ip_version::IpVersionArgs,
    iperf3_values, output,
};

/// The schema of the document that `--json` prints.
const SCHEMA: &str = "longfat.stream/1";
/// The rates of e-VLBI.
const DEFAULT_RATES: &str = "256mbit,512mbit,1024mbit,2048mbit";

/// Options of `stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Host that runs `longfat serve`
    host: String,
    /// Port of the server; with --recorder the UDP port of the recorder
    #[arg(short, long, default_value_t = 5201)]
    port: u16,
    /// Rates of payload, which are tried in this order until one is not sustainable
    #[arg(long, value_name = "RATE,RATE...", value_delimiter = ',', value_parser = iperf3_values::rate, default_value = DEFAULT_RATES)]
    rate: Vec<BitRate>,
    /// Duration at each rate
    #[arg(short, long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "10s")]
    time: Duration,
    /// Play-out delay, from the arrival of the first packet: packets that miss their play-out time are
    /// useless
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "500ms")]
    deadline: Duration,
    /// Request missing packets again while they can arrive in time
    #[arg(long)]
    repair: bool,
    /// A stream is sustainable if at most this percentage of its packets miss their play-out time
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    tolerate_loss: f64,
    /// The server sends
    #[arg(short = 'R', long)]
    reverse: bool,
    /// Payload of a packet, bytes [default: as many as the path's MTU allows]
    #[arg(long, value_name = "BYTES")]
    packet: Option<u32>,
    /// Packets of VLBI recorders: a 64-bit sequence number and a VDIF frame
    #[arg(long)]
    vdif: bool,
    /// The host is a VLBI recorder (such as jive5ab with udps): send VDIF frames to its UDP port without a
    /// control connection
    #[arg(long, conflicts_with_all = ["reverse", "repair", "token"], requires = "rate")]
    recorder: bool,
    /// File with the shared secret of a `longfat serve --token` [default: the one that `longfat config` has
    /// for the host]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    #[command(flatten)]
    ip_version: IpVersionArgs,
    /// Write no records
    #[arg(long)]
    no_record: bool,
}

/// Runs the command.
pub fn run(args: &StreamArgs, config: &Config, runs: &RunsLocation, is_json: bool) -> anyhow::Result<()> {
    if !(0.0..100.0).contains(&args.tolerate_loss) {
        return Err(Exit::BadInput("--tolerate-loss is a percentage, 0 or more and below 100".into()).into());
    }
    if args.time.is_zero() {
        return Err(Exit::BadInput("--time must be above 0".into()).into());
    }
    if args.recorder {
        return run_recorder(args, is_json);
    }
    let token = args.token.clone().or_else(|| config.token_of(&args.host));
    let client = StreamClient {
        host: args.host.clone(),
        port: args.port,
        ip: args.ip_version.required(),
        token: token.as_deref().map(args::token).transpose()?,
    };
    let runs_dir = (!args.no_record).then(|| runs.writable()).transpose()?;
    let mut recorded = Vec::new();
    let mut failure = None;
    for rate in &args.rate {
        if !is_json {
            output::note(&args.announcement(*rate));
        }
        let mut one = match stream(args, &client, *rate, runs_dir.as_deref()) {
            Ok(one) => one,
            Err(error) if recorded.is_empty() => return Err(error),
            // The results at the earlier rates are printed first.
            Err(error) => {
                failure = Some(error);
                break;
            }
        };
        one.path = one.path.map(|path| runs.name_of(&path).into());
        let is_sustainable = one.is_sustainable();
        recorded.push(one);
        if !is_sustainable {
            break;
        }
    }
    let summaries: Vec<RunSummary> = recorded.iter().map(|one| one.run.clone()).collect();
    let best = max_sustainable_rate(&recorded);
    if is_json {
        let mut document = json!({
            "schema": SCHEMA,
            "host": args.host,
            "port": args.port,
            "direction": args.direction(),
            "sustainable_up_to_bps": best,
            "runs": summaries,
        });
        if let Some(error) = &failure {
            document["error"] = chain(error).into();
        }
        output::json(&document)?;
    } else {
        output::text(&text(&recorded, &summaries, best, failure.is_some()))?;
    }
    failure.map_or(Ok(()), Err)
}

/// Runs one stream and records it.
fn stream(
    args: &StreamArgs,
    client: &StreamClient,
    rate: BitRate,
    runs_dir: Option<&Path>,
) -> anyhow::Result<RecordedStream> {
    let stop = interrupt::flag()?;
    let options = StreamOptions {
        direction: args.direction(),
        rate,
        duration: Time::from_duration(args.time),
        deadline: Time::from_duration(args.deadline),
        repairs: args.repair,
        payload_bytes: args.packet,
        vdif: args.vdif,
    };
    let (here, there) = ("this host".to_string(), args.host.clone());
    let (from, to) = if args.reverse { (there, here) } else { (here, there) };
    let test = StreamTest {
        name: format!("stream-{}", args.host),
        title: format!("Stream of {rate} from {from} to {to}"),
        from,
        to,
        rate,
        tolerate_loss: args.tolerate_loss / 100.0,
    };
    // The record begins with the first sample: without a server there is none.
    let mut recorder: Option<StreamRecorder> = None;
    let mut failed = None;
    let mut observe = |sample: &StreamSample| {
        let added = match &mut recorder {
            Some(recorder) => recorder.add(sample),
            None => StreamRecorder::new(runs_dir, test.clone()).and_then(|mut new| {
                let added = new.add(sample);
                recorder = Some(new);
                added
            }),
        };
        if let Err(error) = added {
            failed.get_or_insert(error);
        }
    };
    let note = |text: &str| output::note(&format!("longfat: {text}"));
    let ran = run_stream(client, &options, &stop, note, &mut observe);
    let (parameters, _) = ran.map_err(exit)?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let recorder = recorder.context("the stream has no samples")?;
    Ok(recorder.finish(&parameters)?)
}

/// Sends to a recorder, which reports nothing.
fn run_recorder(args: &StreamArgs, is_json: bool) -> anyhow::Result<()> {
    let [rate] = args.rate[..] else {
        return Err(Exit::BadInput("--recorder needs one --rate".into()).into());
    };
    let stop = interrupt::flag()?;
    let resolved = (args.host.as_str(), args.port).to_socket_addrs();
    let resolved = resolved.with_context(|| format!("cannot resolve {}", args.host))?;
    let is_wanted = |version| args.ip_version.required().is_none_or(|ip| ip == version);
    let recorder = resolved
        .filter(|address| is_wanted(if address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }))
        .min_by_key(|address| address.is_ipv6())
        .with_context(|| format!("{} has no address of this IP version", args.host))?;
    let options = RecorderOptions {
        recorder,
        rate,
        duration: Time::from_duration(args.time),
        payload_bytes: args.packet,
    };
    let (parameters, sample) = send_to_recorder(&options, &stop, |_| {}).map_err(exit)?;
    let counts = &sample.sender;
    if is_json {
        return output::json(&json!({
            "schema": SCHEMA,
            "host": args.host,
            "port": args.port,
            "rate_bps": rate.0,
            "frame_bytes": parameters.payload_bytes + vdif::HEADER_BYTES as u32,
            "sent_packets": counts.sent_packets,
            "skipped_packets": counts.skipped_packets,
        }));
    }
    output::text(&format!(
        "sent {} VDIF frames of {} B of data to {recorder} in {:.1} s; skipped, because this host was stalled: {}\n",
        number::count(counts.sent_packets),
        parameters.payload_bytes,
        sample.time.as_secs_f64(),
        number::count(counts.skipped_packets),
    ))?;
    Ok(())
}

/// The table, the reasons, and the verdict.
fn text(recorded: &[RecordedStream], runs: &[RunSummary], best: Option<f64>, has_failed: bool) -> String {
    let mut out = view::table::streams(runs, output::width());
    for run in runs {
        let rate = run.sweep.get("rate").map_or("", String::as_str);
        for sentence in run.flows.iter().flat_map(|flow| &flow.evidence) {
            out += &format!("{rate}: {sentence}\n");
        }
    }
    for path in recorded.iter().filter_map(|one| one.path.as_deref()) {
        out += &format!("record: {}\n", path.display());
    }
    let beyond = recorded.iter().find(|one| !one.is_sustainable());
    let beyond = beyond.and_then(|one| one.run.sweep.get("rate"));
    out += &match (best, beyond) {
        (Some(best), Some(beyond)) => {
            format!("Sustainable: yes, up to {} ({beyond} is not).\n", number::rate(best))
        }
        (Some(best), None) => {
            let reason =
                if has_failed { "the stream at the next rate failed" } else { "the highest rate tried" };
            format!("Sustainable: yes, up to {} ({reason}).\n", number::rate(best))
        }
        (None, _) => "Sustainable: no.\n".into(),
    };
    out
}

impl StreamArgs {
    fn direction(&self) -> Direction {
        if self.reverse { Direction::FromServer } else { Direction::ToServer }
    }

    fn announcement(&self, rate: BitRate) -> String {
        let preposition = if self.reverse { "from" } else { "to" };
        format!("{rate} {preposition} {} for {} s", self.host, self.time.as_secs_f64())
    }
}
