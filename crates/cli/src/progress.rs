//! Progress of runs on standard error: a progress bar per active run on a terminal, occasional lines
//! elsewhere.

use std::{
    io::IsTerminal,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use experiment::{Observer, Progress, RecentGoodput, RunObserver};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use schema::FlowSample;
use units::{BitRate, Bytes, Time, three_digits};

use crate::output;

/// Interval of lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of runs that have their own lines without a terminal; more runs are only counted.
const MAX_RUNS_WITH_LINES: usize = 8;

/// Shows the progress of the runs of one command.
pub struct ProgressDisplay {
    terminal: Option<Terminal>,
    completed: Mutex<Completed>,
}

/// A progress bar per active run, and below them the number of completed runs.
struct Terminal {
    lines: MultiProgress,
    count: ProgressBar,
}

/// The number of completed runs, and when it was last printed.
struct Completed {
    runs: usize,
    of: usize,
    last_line: Instant,
}

impl ProgressDisplay {
    /// A display without runs.
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal().then(|| {
            let lines = MultiProgress::new();
            let count = ProgressBar::hidden();
            set_style(&count, "{pos} of {len} runs completed");
            Terminal { lines, count }
        });
        ProgressDisplay {
            terminal,
            completed: Mutex::new(Completed { runs: 0, of: 0, last_line: Instant::now() }),
        }
    }

    fn completed(&self) -> MutexGuard<'_, Completed> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for ProgressDisplay {
    fn begin(&self, runs: usize) {
        *self.completed() = Completed { runs: 0, of: runs, last_line: Instant::now() };
        if let Some(terminal) = &self.terminal {
            terminal.count.reset();
            terminal.count.set_length(runs as u64);
            terminal.lines.add(terminal.count.clone());
        }
    }

    fn run(&self, title: &str, duration: Time) -> Box<dyn RunObserver + '_> {
        let bar = self.terminal.as_ref().map(|terminal| {
            let bar = ProgressBar::new(duration.as_millis());
            let bar = terminal.lines.insert_before(&terminal.count, bar);
            set_style(&bar, "{prefix} {bar:20} {msg}");
            bar.set_prefix(output::printable(title).into_owned());
            bar
        });
        let is_quiet = self.completed().of > MAX_RUNS_WITH_LINES;
        if bar.is_none() && !is_quiet {
            output::note(&format!("{title}: {duration} remaining"));
        }
        let (title, goodput) = (title.into(), RecentGoodput::default());
        Box::new(RunLine { title, duration, bar, is_quiet, last_line: Instant::now(), goodput })
    }

    fn note(&self, sentence: &str) {
        match &self.terminal {
            Some(terminal) => terminal.lines.suspend(|| output::note(sentence)),
            None => output::note(sentence),
        }
    }

    fn run_ended(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.count.inc(1);
            return;
        }
        let mut completed = self.completed();
        completed.runs += 1;
        if completed.of > MAX_RUNS_WITH_LINES && completed.last_line.elapsed() >= LINE_INTERVAL {
            completed.last_line = Instant::now();
            output::note(&format!("{} of {} runs completed", completed.runs, completed.of));
        }
    }

    fn end(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.count.finish_and_clear();
            return;
        }
        let completed = self.completed();
        if completed.of > MAX_RUNS_WITH_LINES {
            output::note(&format!("{} of {} runs completed", completed.runs, completed.of));
        }
    }
}

/// Sets the style of a progress bar.
pub fn set_style(bar: &ProgressBar, template: &str) {
    // The templates are constant and valid.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Shows the progress of one run.
struct RunLine {
    title: String,
    duration: Time,
    bar: Option<ProgressBar>,
    /// Whether it prints no lines without a terminal, because there are too many runs.
    is_quiet: bool,
    last_line: Instant,
    goodput: RecentGoodput,
}

impl RunObserver for RunLine {
    fn note(&mut self, sentence: &str) {
        let note = || output::note(&format!("{}: {sentence}", self.title));
        match &self.bar {
            Some(bar) => bar.suspend(note),
            None => note(),
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let left = self.duration.saturating_sub(progress.elapsed).as_secs_f64();
        let flows: Vec<String> = progress.flows.iter().map(|f| self.flow(f)).collect();
        let text = format!("{left:4.1} s left  {}", flows.join("  "));
        match &self.bar {
            Some(bar) => {
                bar.set_position(progress.elapsed.as_millis());
                bar.set_message(output::printable(&text).into_owned());
            }
            None if !self.is_quiet && self.last_line.elapsed() >= LINE_INTERVAL => {
                self.last_line = Instant::now();
                output::note(&format!("{}: {text}", self.title));
            }
            None => {}
        }
    }
}

impl Drop for RunLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl RunLine {
    fn flow(&mut self, sample: &FlowSample) -> String {
        let mut parts = vec![sample.flow.clone()];
        if let Some(goodput) = self.goodput.add(sample) {
            parts.push(BitRate(three_digits(goodput)).to_string());
        }
        if let Some(cwnd) = sample.cwnd_bytes() {
            parts.push(format!("cwnd {}", Bytes(three_digits(cwnd as f64))));
        }
        if let Some(rtt) = sample.srtt_us {
            parts.push(format!("rtt {:.2} ms", rtt as f64 / 1000.0));
        }
        parts.join(" ")
    }
}
