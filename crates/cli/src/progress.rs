//! How a run is going: one changing line on a terminal, a line now and then elsewhere. All on standard error.

use std::{
    collections::VecDeque,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::Progress;
use schema::FlowSample;
use units::{BitRate, Bytes, Time, three_digits};

use crate::output;

/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// The goodput shown is that of about the last second: single samples jump.
const GOODPUT_SPAN_US: i64 = 1_000_000;

/// Tells people how a run is going.
pub struct Teller {
    title: String,
    duration: Time,
    bar: Option<ProgressBar>,
    last_line: Instant,
    /// For each flow: when how many bytes had been received, over the last second.
    received: Vec<(String, VecDeque<(i64, i64)>)>,
}

impl Teller {
    /// A teller for one run of `duration`.
    pub fn new(title: &str, duration: Time) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(duration.0 / 1_000_000), ProgressDrawTarget::stderr());
            // The template is constant and valid.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:20} {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(title.to_string());
            bar
        });
        if bar.is_none() {
            output::note(&format!("{title}: {duration} to go"));
        }
        Teller { title: title.into(), duration, bar, last_line: Instant::now(), received: Vec::new() }
    }

    /// Shows the latest samples.
    pub fn tell(&mut self, progress: &Progress) {
        let left = self.duration.0.saturating_sub(progress.elapsed.0) as f64 * 1e-9;
        let flows: Vec<String> = progress.flows.iter().map(|f| self.flow(f)).collect();
        let text = format!("{left:4.1} s left  {}", flows.join("  "));
        match &self.bar {
            Some(bar) => {
                bar.set_position(progress.elapsed.0 / 1_000_000);
                bar.set_message(text);
            }
            None if self.last_line.elapsed() >= LINE_INTERVAL => {
                self.last_line = Instant::now();
                output::note(&format!("{}: {text}", self.title));
            }
            None => {}
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn flow(&mut self, sample: &FlowSample) -> String {
        let mut parts = vec![sample.flow.clone()];
        if let Some(goodput) = self.goodput(sample) {
            parts.push(BitRate(three_digits(goodput)).to_string());
        }
        if let (Some(cwnd), Some(mss)) = (sample.snd_cwnd_segs, sample.snd_mss_bytes) {
            parts.push(format!("cwnd {}", Bytes(three_digits((cwnd * mss) as f64))));
        }
        if let Some(rtt) = sample.srtt_us {
            parts.push(format!("rtt {:.2} ms", rtt as f64 / 1000.0));
        }
        parts.join(" ")
    }

    /// Goodput since the oldest sample of the last second.
    fn goodput(&mut self, sample: &FlowSample) -> Option<f64> {
        let now = (sample.time_us, sample.bytes_received?);
        let index = self.received.iter().position(|(name, _)| *name == sample.flow).unwrap_or_else(|| {
            self.received.push((sample.flow.clone(), VecDeque::new()));
            self.received.len() - 1
        });
        let history = &mut self.received[index].1;
        history.push_back(now);
        while history.len() > 2 && now.0 - history[0].0 > GOODPUT_SPAN_US {
            history.pop_front();
        }
        let (time_us, bytes) = history[0];
        (now.0 > time_us).then(|| (now.1 - bytes) as f64 * 8.0 / ((now.0 - time_us) as f64 * 1e-6))
    }
}
