//! `longfat watch`: samples live TCP connections, traces their events, and changes their settings.

mod document;
mod lines;
mod modify;
mod namespaces;
mod prometheus;
mod screen;

use std::{
    collections::BTreeMap,
    io::IsTerminal,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use clap::Args;
use measurement::watched::{Recording, SPACING, Trails};
use record::RunsLocation;
use units::Time;
use watch::{Filter, SocketCookie, TracingMode, TrackedConnection, Watcher};

use self::{prometheus::Exporter, screen::Screen};
use crate::{
    exit::Exit,
    interrupt,
    output::{self, Finish},
};

/// Interval at which lines are printed and metrics are exported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the screen is drawn and keys are read.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum sample interval.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_micros(100);

/// Options of `watch`.
#[derive(Debug, Args)]
#[command(after_help = FILTER_HELP)]
pub struct WatchArgs {
    /// Connections to watch, as in `port 5201` or `peer 10.0.0.0/8 and process iperf3` [default: all]
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Sample interval
    #[arg(short, long, value_name = "TIME", default_value = "100ms")]
    interval: Time,
    /// Exit after this time
    #[arg(short, long, value_name = "TIME", conflicts_with = "once")]
    duration: Option<Time>,
    /// Print the connections once and exit
    #[arg(long)]
    once: bool,
    /// Print every web100 instrument (RFC 4898) and its source
    #[arg(long, requires = "once")]
    web100: bool,
    /// Trace each retransmission, state change and window change (needs root and BPF)
    #[arg(long)]
    events: bool,
    /// Also trace each ACK and round-trip sample
    #[arg(long)]
    per_ack: bool,
    /// Sample with sock_diag even if eBPF is available
    #[arg(long, conflicts_with_all = ["events", "per_ack"])]
    no_bpf: bool,
    /// Write a record, for show, plot, report and compare
    #[arg(long, conflicts_with = "once")]
    record: bool,
    /// Export aggregates for Prometheus on this port
    #[arg(long, value_name = "PORT", conflicts_with = "once")]
    prometheus: Option<u16>,
    /// Address of the exporter
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "prometheus")]
    prometheus_bind: std::net::IpAddr,
    /// Print lines even on a terminal
    #[arg(long)]
    lines: bool,

    /// Change a setting of the connections that match FILTER, as in `--set pacing=100mbit` (repeatable)
    #[arg(
        long, value_name = "KEY=VALUE", help_heading = "Change connections",
        conflicts_with_all = ["restore", "once", "record", "events", "per_ack", "no_bpf", "prometheus", "duration"]
    )]
    set: Vec<watch::modify::Setting>,
    /// Restore the settings that --set changed, of all connections or of those that match FILTER
    #[arg(
        long, help_heading = "Change connections",
        conflicts_with_all = ["once", "record", "events", "per_ack", "no_bpf", "prometheus", "duration"]
    )]
    restore: bool,

    /// Network namespace: its name, its path, or a process in it (repeatable)
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Network namespaces")]
    namespace: Vec<String>,
    /// Host of a lab that is up, or `all` (repeatable)
    #[arg(long, value_name = "HOST", help_heading = "Network namespaces")]
    host: Vec<String>,
    /// Name of the lab [default: the one that you brought up last]
    #[arg(long, value_name = "NAME", requires = "host", help_heading = "Network namespaces")]
    lab: Option<String>,
}

const FILTER_HELP: &str = "\
FILTER consists of
  port N   local port N   peer port N
  peer PREFIX   local PREFIX   address PREFIX     as in 10.0.0.0/8
  process NAME   pid N   user N   state NAME   cc NAME   namespace NAME
joined by and (optional), or, not and parentheses.

Settings of --set:
  cc=NAME            congestion control
  pacing=RATE|off    maximum pacing rate
  sndbuf=SIZE|auto   send buffer as requested; the kernel uses twice that
  rcvbuf=SIZE|auto   receive buffer as requested; the kernel uses twice that
  cwnd_clamp=N|off   maximum congestion window in segments (needs root and BPF)";

/// Runs the command.
pub fn run(args: &WatchArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let text = args.filter.join(" ");
    let filter = Filter::parse(&text).map_err(|error| Exit::BadInput(error.to_string()))?;
    if !args.set.is_empty() {
        return modify::set(args, &text, filter, json);
    }
    if args.restore {
        return modify::restore(args, &text, filter, json);
    }
    let interval = args.interval.to_duration();
    if interval < MIN_SAMPLE_INTERVAL {
        return Err(Exit::BadInput("--interval must be 100us or more".into()).into());
    }
    let namespaces = namespaces::all(args)?;
    let stop = interrupt::flag()?;
    output::queue(Finish::UnlessStopped(stop.clone()))?;
    let tracing = match (args.no_bpf, args.per_ack, args.events) {
        (true, ..) => TracingMode::Never,
        (_, true, _) => TracingMode::PerAck,
        (_, _, true) => TracingMode::Events,
        _ if args.once => TracingMode::Never,
        _ => TracingMode::IfPossible,
    };
    let mut watcher = Watcher::new(namespaces, filter, tracing).map_err(failure)?;
    if args.per_ack && !watcher.traces_round_trips() {
        output::note(
            "longfat: round-trip samples are not traced: that needs a cgroup2 file system and Linux 6.10",
        );
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
        recording: match args.record {
            true => Some(Recording::begin(&runs.writable()?, &text)?),
            false => None,
        },
        runs: runs.clone(),
        trails: Trails::default(),
        trailed: None,
        form,
        interval,
        printed_changes: BTreeMap::new(),
    };
    session.run(&mut watcher, args, &stop)
}

/// Takes two samples, which gives rates.
fn once(
    watcher: &mut Watcher,
    interval: Duration,
    args: &WatchArgs,
    json: bool,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut trails = Trails::default();
    for first in [true, false] {
        watcher.sample().map_err(failure)?;
        trails.update(watcher);
        if first && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(interval.min(REPORT_INTERVAL));
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
    /// Lines whose reader has closed standard output, as `| head` does.
    Closed,
}

struct Session {
    exporter: Option<Exporter>,
    recording: Option<Recording>,
    runs: RunsLocation,
    trails: Trails,
    trailed: Option<Instant>,
    form: Form,
    interval: Duration,
    /// Changes of paths that were printed, by connection.
    printed_changes: BTreeMap<SocketCookie, usize>,
}

impl Session {
    fn run(mut self, watcher: &mut Watcher, args: &WatchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
        let begun = Instant::now();
        let end = args.duration.map(|time| begun + time.to_duration());
        let mut next = begun;
        let mut reported = begun;
        let mut drawn = None;
        let is_over = |now: Instant| end.is_some_and(|end| now >= end);
        let mut has_quit = false;
        while !has_quit && self.has_output() && !stop.load(Ordering::Relaxed) && !is_over(Instant::now()) {
            let now = Instant::now();
            if now >= next {
                next = (next + self.interval).max(now);
                watcher.sample().map_err(failure)?;
                self.process(watcher)?;
            }
            if now.duration_since(reported) >= REPORT_INTERVAL {
                reported = now;
                self.report(watcher, begun)?;
            }
            if let Form::Screen(screen) = &mut self.form
                && drawn.is_none_or(|before| now.duration_since(before) >= FRAME_INTERVAL)
            {
                drawn = Some(now);
                has_quit = screen.step(watcher, &self.trails)?;
            }
            let until = next.min(drawn.map_or(next, |drawn| drawn + FRAME_INTERVAL));
            let timeout = until.saturating_duration_since(Instant::now()).min(FRAME_INTERVAL);
            watcher.wait(timeout).map_err(failure)?;
        }
        let early = end.is_some_and(|end| Instant::now() < end) && !has_quit && self.has_output();
        self.end(watcher, early)
    }

    /// Whether any output receives the samples.
    fn has_output(&self) -> bool {
        !matches!(self.form, Form::Closed) || self.recording.is_some() || self.exporter.is_some()
    }

    /// Processes the latest samples and events.
    fn process(&mut self, watcher: &mut Watcher) -> anyhow::Result<()> {
        let events = watcher.take_events();
        if self.trailed.is_none_or(|before| before.elapsed() >= SPACING) {
            self.trailed = Some(Instant::now());
            self.trails.update(watcher);
        }
        if let Some(recording) = &mut self.recording {
            recording.append(watcher, &events)?;
        }
        Ok(())
    }

    fn report(&mut self, watcher: &Watcher, begun: Instant) -> anyhow::Result<()> {
        if let Form::Lines = self.form {
            let changes = lines::path_changes(watcher, &self.trails, &mut self.printed_changes);
            let text = changes + &lines::periodic(watcher, &self.trails, begun.elapsed());
            if !text.is_empty() {
                match output::text(&text) {
                    Err(error) if output::is_closed(&error) => self.form = Form::Closed,
                    printed => printed?,
                }
            }
        }
        if let Some(exporter) = &self.exporter {
            exporter.publish(prometheus::text(watcher, &self.trails));
        }
        Ok(())
    }

    fn end(mut self, watcher: &mut Watcher, early: bool) -> anyhow::Result<()> {
        self.process(watcher)?;
        if let Form::Screen(screen) = self.form {
            screen.close();
            self.form = Form::Lines;
        }
        if watcher.lost_events() > 0 {
            output::note(&format!(
                "longfat: {} events were lost: they arrived faster than they were read",
                watcher.lost_events()
            ));
        }
        let record = self.recording.map(|recording| recording.end(watcher, early)).transpose()?;
        let record = record.map(|directory| self.runs.name_of(&directory));
        match self.form {
            Form::Json => output::json(&document::document(watcher, &self.trails, true, record.as_deref()))?,
            _ => {
                if let Some(path) = &record {
                    output::note(&format!("record: {path}"));
                }
            }
        }
        if early { Err(Exit::Interrupted.into()) } else { Ok(()) }
    }
}

/// Live connections, those with the highest rate first.
fn ranked(watcher: &Watcher) -> Vec<&TrackedConnection> {
    let mut live: Vec<&TrackedConnection> = watcher.connections().filter(|c| c.closed_ns.is_none()).collect();
    live.sort_by(|a, b| {
        let by_rate = b.max_rate_bps().total_cmp(&a.max_rate_bps());
        by_rate.then(a.sample.cookie.cmp(&b.sample.cookie))
    });
    live
}

/// An error of the watcher with its exit code.
fn failure(error: watch::Error) -> anyhow::Error {
    match error {
        watch::Error::Missing(why) => {
            Exit::Missing(format!("{why}; sampling without --events and --per-ack still works")).into()
        }
        other => other.into(),
    }
}
