//! The gaps between datagrams as the kernel stamps them when the receiving device takes them in.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use lab::baseline::VethPair;

use crate::ends::PORT;

/// Gaps in microseconds.
pub struct Gaps(Vec<f64>);

/// Captures what comes to the right namespace while `test` runs; gives the gaps and what `test` gives.
pub fn capture<T>(pair: &VethPair, test: impl FnOnce() -> T) -> (Gaps, T) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().to_str().expect("a plain path").to_owned();
    let filter = format!("udp dst port {PORT} and greater 1000");
    let words = ["-i", "right", "-s", "64", "-B", "64", "-f", &filter, "-w", &path];
    let start = || Command::new("dumpcap").args(words).stderr(Stdio::piped()).spawn();
    let mut capturing = pair.right(start).expect("the namespace is there").expect("dumpcap can be started");
    let told = BufReader::new(capturing.stderr.take().expect("it is piped"));
    // It names the file when it has begun.
    let began = told.lines().map_while(Result::ok).any(|line| line.starts_with("File:"));
    assert!(began, "dumpcap captures nothing");
    let result = test();
    let pid = capturing.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().expect("it can be ended");
    capturing.wait().expect("it ends");
    let read = Command::new("tshark")
        .args(["-r", &path, "-T", "fields", "-e", "frame.time_delta"])
        .stderr(Stdio::null())
        .output()
        .expect("tshark can be started");
    let seconds =
        String::from_utf8_lossy(&read.stdout).lines().flat_map(str::parse::<f64>).collect::<Vec<_>>();
    assert!(seconds.len() > 100, "tshark read {} packets", seconds.len());
    (Gaps(seconds[1..].iter().map(|gap| gap * 1e6).collect()), result)
}

impl Gaps {
    pub fn mean_us(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Root of the mean square of what gaps differ from the ideal.
    pub fn error_us(&self, ideal_us: f64) -> f64 {
        let squares = self.0.iter().map(|gap| (gap - ideal_us) * (gap - ideal_us));
        (squares.sum::<f64>() / self.0.len() as f64).sqrt()
    }

    /// The share of gaps within `share` of the ideal.
    pub fn within(&self, ideal_us: f64, share: f64) -> f64 {
        let near = self.0.iter().filter(|gap| (*gap / ideal_us - 1.0).abs() <= share).count();
        near as f64 / self.0.len() as f64
    }

    pub fn longest_us(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}
