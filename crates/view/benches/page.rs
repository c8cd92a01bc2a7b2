//! Response times of the page for a record of ten million samples: 7000 s of a flow, 0.7 ms apart. `cargo
//! bench -p longfat-view`.
//!
//! Prints the duration of a browser's requests: opening the run, drawing all charts for the first time,
//! and drawing shorter and shorter spans. The record is written to a temporary directory as during a run, and
//! takes about 700 MB.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use schema::{Cause, FlowSample, LinkSample, Summary};

const SAMPLES: i64 = 10_000_000;
const STEP_US: i64 = 700;
/// Rows per call of the writer.
const CHUNK: i64 = 100_000;

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let begun = Instant::now();
    let id = write(dir.path());
    println!("record of {SAMPLES} samples written in {:.1} s", begun.elapsed().as_secs_f64());

    let options = view::PageOptions {
        theme: view::Theme::Auto,
        runs: dir.path().into(),
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        requested: Vec::new(),
        hostname: None,
        browsers: view::Browsers::One,
        sources: vec![("L8-default".into(), "Lab 8".into())],
    };
    let page = view::Page::new(options).expect("a free port");
    let (address, url) = (page.address(), page.url());
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let serving = std::thread::spawn(move || page.serve(&flag));
    let token = url.split("token=").nth(1).expect("a token");
    let (head, _) = request(address, "GET", &format!("/?token={token}"), "", "");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();

    let timed = |what: &str, path: &str, body: String| {
        let (begun, used) = (Instant::now(), processor_s());
        let (head, response) = request(address, "POST", path, &cookie, &body);
        let (took, used) = (begun.elapsed().as_secs_f64(), processor_s() - used);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        println!(
            "{what:<42} {:>8.1} ms, {:>5.0} ms of processors {:>9} bytes",
            took * 1e3,
            used * 1e3,
            response.len()
        );
        took
    };
    let open = timed("open", "/api/open", format!("{{\"runs\":[\"big/{id}\"]}}"));
    let series = |from: f64, to: f64| {
        format!(
            "{{\"run\":\"big/{id}\",\"from_s\":{from},\"to_s\":{to},\"columns\":2400,\"causes\":true,\"events\":true,\
             \"measures\":[\"goodput\",\"cwnd\",\"inflight\",\"ssthresh\",\"rwnd\",\"rtt\",\"retrans\"],\
             \"link_measures\":[\"queue\",\"link_rate\"]}}"
        )
    };
    let first = timed("first picture: all charts, 7000 s", "/api/series", series(0.0, 7000.0));
    println!("{:<42} {:>8.1} ms", "until all is drawn", (open + first) * 1e3);
    for length in [7000.0, 3500.0, 700.0, 140.0, 70.0, 7.0, 0.7, 0.07] {
        timed(
            &format!("zoom: {length} s"),
            "/api/series",
            series(3000.0_f64.min(7000.0 - length), 3000.0_f64.min(7000.0 - length) + length),
        );
    }
    stop.store(true, Ordering::Relaxed);
    let _ = serving.join();
}

/// Processor time of this process, all threads, in seconds (proc(5): ticks of 10 ms).
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Writes the record of a run in progress; returns its id.
fn write(runs: &std::path::Path) -> String {
    let summary: Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).expect("a summary");
    let mut writer =
        record::Writer::create(runs, "big", "20261121T000000Z-sim", "", &summary).expect("a record");
    let mut first = 0;
    while first < SAMPLES {
        let rows = first..(first + CHUNK).min(SAMPLES);
        let flows: Vec<FlowSample> = rows.clone().map(flow).collect();
        let links: Vec<LinkSample> = rows.step_by(10).map(link).collect();
        writer.append(&flows, &links, &[]).expect("room on the disk");
        first += CHUNK;
    }
    writer.id().to_owned()
}

/// Deterministic numbers that do not compress.
fn noise(i: i64) -> i64 {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44) as i64
}

fn flow(i: i64) -> FlowSample {
    let saw = i % 130_000;
    FlowSample {
        time_us: i * STEP_US,
        flow: "bulk".into(),
        limited_by: Some(if saw < 30_000 { Cause::Loss } else { Cause::PathRate }),
        goodput_bps: Some(900_000_000 + noise(i) * 100),
        snd_cwnd_segs: Some(2000 + saw / 50),
        snd_ssthresh_segs: Some(2000),
        snd_mss_bytes: Some(8948),
        snd_wnd_bytes: Some(60_000_000 + noise(i)),
        unacked_segs: Some(1990 + saw / 50),
        sacked_segs: Some(0),
        lost_segs: Some(0),
        retrans_segs: Some(0),
        total_retrans_segs: Some(i / 130_000),
        srtt_us: Some(120_000 + noise(i) / 50),
        ..FlowSample::default()
    }
}

fn link(i: i64) -> LinkSample {
    LinkSample {
        time_us: i * STEP_US,
        link: "s1-s2".into(),
        direction: schema::LinkDirection::Forward,
        rate_bps: Some(950_000_000 + noise(i)),
        queue_bytes: Some(noise(i)),
        ..LinkSample::default()
    }
}

fn request(address: SocketAddr, method: &str, path: &str, cookie: &str, body: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("the page's server");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nCookie: {cookie}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("a request");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("a response");
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes[end + 4..].to_vec())
}
