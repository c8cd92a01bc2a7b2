//! `longfat watch`: live TCP connections, looked at as often as asked, and each event of theirs.

mod document;
mod flows;
mod lines;
mod places;
mod prometheus;
mod recording;
mod screen;
mod trail;

use std::{
    collections::BTreeMap,
    io::IsTerminal,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use clap::Args;
use units::Time;
use watch::{Cookie, Filter, Followed, Tracing, Watcher};

use self::{flows::Pairs, prometheus::Exporter, recording::Recording, screen::Screen, trail::Trail};
use crate::{
    exit::Exit,
    interrupt,
    output::{self, Finish},
};

/// Lines are printed, and figures exported, so often.
const REPORT: Duration = Duration::from_secs(1);
/// The screen is drawn, and keys are read, so often.
const FRAME: Duration = Duration::from_millis(100);
/// Shortest interval between two looks.
const INTERVAL_LEAST: Duration = Duration::from_micros(100);

/// Which connections, how often, and what becomes of it.
#[derive(Debug, Args)]
#[command(after_help = FILTER_HELP)]
pub struct WatchArgs {
    /// Which connections: port 5201, peer 10.0.0.0/8 and process iperf3; all without one
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Between two looks
    #[arg(short, long, value_name = "TIME", default_value = "100ms")]
    interval: Time,
    /// End after so long
    #[arg(short, long, value_name = "TIME", conflicts_with = "once")]
    duration: Option<Time>,
    /// Print the connections as they are, and end
    #[arg(long)]
    once: bool,
    /// Every instrument of web100 (RFC 4898), with where it comes from
    #[arg(long, requires = "once")]
    web100: bool,
    /// Trace each retransmission, change of state and window (needs root and BPF)
    #[arg(long)]
    events: bool,
    /// Trace each ACK and round trip as well
    #[arg(long)]
    per_ack: bool,
    /// Look by sock_diag even where eBPF would cost less
    #[arg(long, conflicts_with_all = ["events", "per_ack"])]
    no_bpf: bool,
    /// Keep a record, for show, plot, report and compare
    #[arg(long, conflicts_with = "once")]
    record: bool,
    /// Export aggregates for Prometheus at this port
    #[arg(long, value_name = "PORT", conflicts_with = "once")]
    prometheus: Option<u16>,
    /// The address to export at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "prometheus")]
    prometheus_bind: std::net::IpAddr,
    /// Lines, even on a terminal
    #[arg(long)]
    lines: bool,

    /// A network namespace: its name, path, or a process in it (may be given several times)
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Where")]
    namespace: Vec<String>,
    /// A host of a lab that is up, or `all` (may be given several times)
    #[arg(long, value_name = "HOST", help_heading = "Where")]
    host: Vec<String>,
    /// The name of the lab
    #[arg(long, value_name = "NAME", requires = "host", help_heading = "Where")]
    lab: Option<String>,
}

const FILTER_HELP: &str = "\
FILTER is made of
  port N   local port N   peer port N
  peer PREFIX   local PREFIX   address PREFIX     as in 10.0.0.0/8
  process NAME   pid N   user N   state NAME   cc NAME   namespace NAME
joined by and (which may be left out), or, not and brackets.";

/// Watches.
pub fn run(args: &WatchArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let text = args.filter.join(" ");
    let filter = Filter::parse(&text).map_err(|error| Exit::BadInput(error.to_string()))?;
    let interval = Duration::from_nanos(args.interval.0);
    if interval < INTERVAL_LEAST {
        return Err(Exit::BadInput("--interval must be 100us or more".into()).into());
    }
    let places = places::all(args)?;
    let stop = interrupt::flag()?;
    output::queue(Finish::UnlessStopped(stop.clone()))?;
    let tracing = match (args.no_bpf, args.per_ack, args.events) {
        (true, ..) => Tracing::Never,
        (_, true, _) => Tracing::PerAck,
        (_, _, true) => Tracing::Events,
        _ if args.once => Tracing::Never,
        _ => Tracing::IfPossible,
    };
    let mut watcher = Watcher::new(places, filter, tracing).map_err(failure)?;
    if args.per_ack && !watcher.tells_round_trips() {
        output::note("longfat: round trips are not traced: no cgroup2 file system is mounted");
    }
    if args.once {
        return once(&mut watcher, interval, args, json, &stop);
    }
    let form = match (json, args.lines || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal())
    {
        (true, _) => Form::Json,
        (_, true) => Form::Lines,
        _ => Form::Screen(Box::new(Screen::open(&text, interval)?)),
    };
    let session = Session {
        exporter: args.prometheus.map(|port| Exporter::open(args.prometheus_bind, port)).transpose()?,
        recording: args.record.then(|| Recording::begin(runs_dir, &text)).transpose()?,
        trails: BTreeMap::new(),
        trailed: None,
        form,
        interval,
    };
    session.run(&mut watcher, args, &stop)
}

/// Two looks, so that there are rates.
fn once(
    watcher: &mut Watcher,
    interval: Duration,
    args: &WatchArgs,
    json: bool,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut trails = BTreeMap::new();
    for first in [true, false] {
        watcher.look().map_err(failure)?;
        update(&mut trails, watcher);
        if first && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(interval.min(REPORT));
        }
    }
    match json {
        true => output::json(&document::document(watcher, &trails, args.web100, None)),
        false => output::text(&lines::once(watcher, &trails, args.web100)),
    }
}

enum Form {
    Json,
    Lines,
    Screen(Box<Screen>),
}

struct Session {
    exporter: Option<Exporter>,
    recording: Option<Recording>,
    trails: BTreeMap<Cookie, Trail>,
    trailed: Option<Instant>,
    form: Form,
    interval: Duration,
}

impl Session {
    fn run(mut self, watcher: &mut Watcher, args: &WatchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
        let begun = Instant::now();
        let end = args.duration.map(|time| begun + Duration::from_nanos(time.0));
        let mut next = begun;
        let mut reported = begun;
        let mut drawn = None;
        let is_over = |now: Instant| end.is_some_and(|end| now >= end);
        let mut left = false;
        while !left && !stop.load(Ordering::Relaxed) && !is_over(Instant::now()) {
            let now = Instant::now();
            if now >= next {
                next = (next + self.interval).max(now);
                watcher.look().map_err(failure)?;
                self.take(watcher)?;
            }
            if now.duration_since(reported) >= REPORT {
                reported = now;
                self.report(watcher, begun)?;
            }
            if let Form::Screen(screen) = &mut self.form
                && drawn.is_none_or(|before| now.duration_since(before) >= FRAME)
            {
                drawn = Some(now);
                left = screen.step(watcher, &self.trails)?;
            }
            let until = next.min(drawn.map_or(next, |drawn| drawn + FRAME));
            let patience = until.saturating_duration_since(Instant::now()).min(FRAME);
            watcher.wait(patience).map_err(failure)?;
        }
        let early = end.is_some_and(|end| Instant::now() < end) && !left;
        self.end(watcher, early)
    }

    /// Takes in what was seen and what happened.
    fn take(&mut self, watcher: &mut Watcher) -> anyhow::Result<()> {
        let events = watcher.take_events();
        if self.trailed.is_none_or(|before| before.elapsed() >= trail::SPACING) {
            self.trailed = Some(Instant::now());
            update(&mut self.trails, watcher);
        }
        if let Some(recording) = &mut self.recording {
            recording.take(watcher, &events)?;
        }
        Ok(())
    }

    fn report(&mut self, watcher: &Watcher, begun: Instant) -> anyhow::Result<()> {
        if let Form::Lines = self.form {
            let text = lines::periodic(watcher, &self.trails, begun.elapsed());
            if !text.is_empty() {
                output::text(&text)?;
            }
        }
        if let Some(exporter) = &self.exporter {
            exporter.publish(prometheus::text(watcher, &self.trails));
        }
        Ok(())
    }

    fn end(mut self, watcher: &mut Watcher, early: bool) -> anyhow::Result<()> {
        self.take(watcher)?;
        if let Form::Screen(screen) = self.form {
            screen.close();
            self.form = Form::Lines;
        }
        if watcher.lost_events() > 0 {
            output::note(&format!("longfat: {} events came too fast and are missing", watcher.lost_events()));
        }
        let record = self.recording.map(|recording| recording.end(watcher, early)).transpose()?;
        match self.form {
            Form::Json => output::json(&document::document(watcher, &self.trails, false, record.as_deref()))?,
            _ => {
                if let Some(path) = &record {
                    output::note(&format!("record: {}", path.display()));
                }
            }
        }
        if early { Err(Exit::Interrupted.into()) } else { Ok(()) }
    }
}

/// Adds what was seen to the trails.
fn update(trails: &mut BTreeMap<Cookie, Trail>, watcher: &Watcher) {
    let pairs = Pairs::of(watcher);
    for connection in watcher.connections() {
        trails.entry(connection.look.cookie).or_default().add(connection, pairs.other_end(connection));
    }
    if trails.len() > watcher.connections().count() {
        trails.retain(|cookie, _| watcher.connection(*cookie).is_some());
    }
}

/// Live connections, those with the highest rate first.
fn ranked(watcher: &Watcher) -> Vec<&Followed> {
    let mut live: Vec<&Followed> = watcher.connections().filter(|c| c.closed_ns.is_none()).collect();
    live.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.look.cookie.cmp(&b.look.cookie)));
    live
}

/// The larger of a connection's two rates, bit/s.
fn rate(connection: &Followed) -> f64 {
    connection.rates_bps.map_or(0.0, |(sent, received)| sent.max(received))
}

/// What the watcher says, with its exit code.
fn failure(error: watch::Error) -> anyhow::Error {
    match error {
        watch::Error::Missing(why) => {
            Exit::Missing(format!("{why}; without --events and --per-ack looking still works")).into()
        }
        other => other.into(),
    }
}
