//! Gaps between datagrams, from the kernel's timestamps at the receiving device.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use lab::baseline::VethPair;

use crate::{BLOCK, ends::PORT, median};

/// Ethernet, IPv4 and UDP headers, bytes.
const HEADERS: usize = 14 + 20 + 8;

/// Gaps in microseconds.
pub struct Gaps(Vec<f64>);

/// Captures the datagrams that arrive in the namespace `right` during `test`. Returns their gaps and the
/// result of `test`.
pub fn capture<T>(pair: &VethPair, test: impl FnOnce() -> T) -> (Gaps, T) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().to_str().expect("a plain path").to_owned();
    let filter = format!("udp dst port {PORT} and greater 1000");
    let arguments = ["-i", "right", "-s", "64", "-B", "64", "-f", &filter, "-w", &path];
    let start = || Command::new("dumpcap").args(arguments).stderr(Stdio::piped()).spawn();
    let mut capturing = pair.right(start).expect("the namespace exists").expect("dumpcap can be started");
    let messages = BufReader::new(capturing.stderr.take().expect("the output is piped"));
    // dumpcap prints the file's name when the capture has started.
    let began = messages.lines().map_while(Result::ok).any(|line| line.starts_with("File:"));
    assert!(began, "dumpcap did not start a capture");
    let result = test();
    let pid = capturing.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().expect("dumpcap can be stopped");
    capturing.wait().expect("dumpcap ends");
    let read = Command::new("tshark")
        .args([
            "-r",
            &path,
            "-T",
            "fields",
            "-E",
            "separator=/s",
            "-e",
            "frame.time_delta",
            "-e",
            "frame.len",
        ])
        .stderr(Stdio::null())
        .output()
        .expect("tshark can be started");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let gaps: Vec<f64> = text.lines().flat_map(gaps).skip(1).collect();
    assert!(gaps.len() > 100, "tshark read {} datagrams", gaps.len());
    (Gaps(gaps), result)
}

/// The gap before each datagram of a frame, us, from tshark's line of seconds and bytes. A GSO frame has
/// several datagrams.
fn gaps(line: &str) -> Vec<f64> {
    let (delta, bytes) = line.split_once(' ').expect("two fields");
    let delta: f64 = delta.parse().expect("a number of seconds");
    let payload = bytes.parse::<usize>().expect("a number of bytes") - HEADERS;
    let mut gaps = vec![0.0; payload.div_ceil(BLOCK as usize)];
    gaps[0] = delta * 1e6;
    gaps
}

impl Gaps {
    pub fn mean_us(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Root mean square of the differences from the ideal gap.
    pub fn error_us(&self, ideal_us: f64) -> f64 {
        let squares = self.0.iter().map(|gap| (gap - ideal_us) * (gap - ideal_us));
        (squares.sum::<f64>() / self.0.len() as f64).sqrt()
    }

    /// Median of the absolute differences from the ideal gap.
    pub fn median_error_us(&self, ideal_us: f64) -> f64 {
        median(self.0.iter().map(|gap| (gap - ideal_us).abs()).collect())
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
