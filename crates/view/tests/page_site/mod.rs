//! Serves a page to a test: a small record in a temporary directory, and an HTTP client in place of a
//! browser.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use schema::{
    Cause, Event, EventKind, FlowKind, FlowSample, FlowSummary, LinkDirection, LinkSample, LinkSummary,
    PublishedResult, PublishedVerdict, Summary, TraceKind, TraceRow,
};
use serde_json::Value;
use tempfile::TempDir;

/// Samples of each flow, 10 ms apart.
pub const SAMPLES: i64 = 3000;

/// A page and the directory of its records.
pub struct Site {
    pub dir: TempDir,
    pub address: SocketAddr,
    pub token: String,
    pub cookie: String,
    id: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// An HTTP response.
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

/// Decoded series: the head, and of each curve its points.
pub struct Series {
    pub head: Value,
    pub curves: Vec<Vec<(f64, f64)>>,
    pub means: Vec<Vec<(f64, f64)>>,
    pub causes: Vec<u8>,
}

pub fn flows() -> Vec<FlowSample> {
    let row = |i: i64, name: &str, k: i64| FlowSample {
        time_us: i * 10_000,
        flow: name.into(),
        limited_by: Some(if i < 1000 { Cause::SlowStart } else { Cause::Loss }),
        goodput_bps: Some((i * 7919 * k) % 1_000_003),
        snd_cwnd_segs: Some(10 + (i * k) % 97),
        snd_mss_bytes: Some(1448),
        srtt_us: (i % 10 != 0).then_some(20_000 + (i * k * 31) % 977),
        unacked_segs: Some(5 + i % 3),
        ..FlowSample::default()
    };
    (0..SAMPLES).flat_map(|i| [row(i, "a", 1), row(i, "b", 3)]).collect()
}

fn summary() -> Summary {
    let mut summary: Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
    let run = &mut summary.runs[0];
    run.duration_s = 30.0;
    run.flows = ["a", "b"]
        .map(|name| FlowSummary {
            name: name.into(),
            from: "h1".into(),
            to: "h2".into(),
            kind: FlowKind::Tcp,
            goodput_bps: Some(5e5),
            ..FlowSummary::default()
        })
        .to_vec();
    run.links = vec![LinkSummary {
        name: "h1-h2".into(),
        direction: LinkDirection::Forward,
        rate_bps: Some(1e6),
        ..LinkSummary::default()
    }];
    run.sweep.insert("links.h1-h2.forward.queue".into(), "100p".into());
    summary.published = vec![PublishedResult {
        id: "P".into(),
        metric: "flows.a.goodput".into(),
        kind: schema::FigureKind::Published,
        claim: None,
        judged: Vec::new(),
        variant: None,
        beside: None,
        published: Some(5e5),
        bound: None,
        unit: "bit/s".into(),
        tolerance: 0.1,
        model: None,
        sim: Some(5e5),
        lab: None,
        hosts: None,
        kernels: Vec::new(),
        model_published_kernel: None,
        verdict: PublishedVerdict::Within,
        faults: Vec::new(),
        known_miss: None,
        contradiction: None,
        why: None,
    }];
    summary
}

const SCENARIO: &str = r#"title = "two"
duration = "30s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "1mbit", delay = "10ms", queue = "100p" }
[[flows]]
name = "a"
from = "h1"
to = "h2"
[[flows]]
name = "b"
from = "h1"
to = "h2"
"#;

impl Site {
    /// Writes the record and serves the page.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let mut writer =
            record::Writer::create(&runs, "two", "20261121T031500Z-sim", SCENARIO, &summary()).unwrap();
        let links: Vec<LinkSample> = (0..SAMPLES)
            .map(|i| LinkSample {
                time_us: i * 10_000,
                link: "h1-h2".into(),
                direction: LinkDirection::Forward,
                queue_bytes: Some(i % 100),
                rate_bps: Some(i),
                ..LinkSample::default()
            })
            .collect();
        let events: Vec<Event> = (0..50)
            .map(|i| Event {
                time_us: i * 500_000,
                subject: "a".into(),
                kind: EventKind::Retransmit,
                value: 2,
            })
            .collect();
        let trace: Vec<TraceRow> = (0..500)
            .map(|i| TraceRow {
                time_us: i * 1000,
                flow: "a".into(),
                kind: if i % 2 == 0 { TraceKind::Sent } else { TraceKind::Ack },
                seq_bytes: Some(i * 1448),
                len_bytes: Some(1448),
                ack_bytes: Some(i * 1000),
                snd_wnd_bytes: Some(65_536),
                ..TraceRow::default()
            })
            .collect();
        writer.append_trace(&trace).unwrap();
        let id = writer.id().to_owned();
        writer.finish(&summary(), &flows(), &links, &events).unwrap();
        // A record outside the directory, and a symbolic link to it.
        std::fs::create_dir_all(dir.path().join("outside/two/secret")).unwrap();
        std::fs::write(dir.path().join("outside/two/secret/summary.json"), record::EXAMPLE_SUMMARY).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside/two/secret"), runs.join("two/linked")).unwrap();

        let options = view::PageOptions {
            theme: view::Theme::Dark,
            runs: runs.into(),
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            requested: vec![],
            hostname: None,
            browsers: view::Browsers::One,
            sources: vec![("L8-default".into(), "Lab 8".into())],
        };
        let page = view::Page::new(options).unwrap();
        let (address, url) = (page.address(), page.url());
        let token = url.split("token=").nth(1).unwrap().to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || page.serve(&flag).unwrap());
        let mut site = Site { dir, address, token, cookie: String::new(), id, stop, thread: Some(thread) };
        let welcome = site.request("GET", &format!("/?token={}", site.token), &[], b"");
        let cookie = welcome.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        site.cookie = cookie.split(';').next().unwrap().to_owned();
        site
    }

    pub fn runs_dir(&self) -> PathBuf {
        self.dir.path().join("runs")
    }

    /// `scenario/id` of the record.
    pub fn key(&self) -> String {
        format!("two/{}", self.id)
    }

    /// A request with these headers; `Host` is the server's own where none is given.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if headers.iter().all(|(name, _)| *name != "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head, body: bytes[end + 4..].to_vec() }
    }

    /// Sends a request with the cookie.
    pub fn with_cookie(&self, method: &str, path: &str, body: &[u8]) -> Response {
        self.request(method, path, &[("Cookie", &self.cookie)], body)
    }

    pub fn get(&self, path: &str) -> Value {
        let response = self.with_cookie("GET", path, b"");
        assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
        serde_json::from_slice(&response.body).unwrap()
    }

    pub fn post(&self, path: &str, request: &Value) -> Value {
        let response = self.with_cookie("POST", path, request.to_string().as_bytes());
        assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
        serde_json::from_slice(&response.body).unwrap()
    }

    pub fn series(&self, request: &Value) -> Series {
        let response = self.with_cookie("POST", "/api/series", request.to_string().as_bytes());
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        let length = u32::from_le_bytes(response.body[..4].try_into().unwrap()) as usize;
        let head: Value = serde_json::from_slice(&response.body[4..4 + length]).unwrap();
        let mut rest = &response.body[4 + length..];
        let mut curves = Vec::new();
        for curve in head["curves"].as_array().unwrap() {
            for count in [&curve["points"], &curve["means"]].map(|n| n.as_u64().unwrap() as usize) {
                let (own, others) = rest.split_at(16 * count);
                rest = others;
                let number = |at: usize| f64::from_le_bytes(own[8 * at..8 * at + 8].try_into().unwrap());
                curves.push((0..count).map(|i| (number(i), number(count + i))).collect::<Vec<_>>());
            }
        }
        // Points and means alternate.
        let means = curves.iter().skip(1).step_by(2).cloned().collect();
        let curves = curves.into_iter().step_by(2).collect();
        Series { head, curves, means, causes: rest.to_vec() }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
