//! Synthetic runs that resemble a TCP transfer over 10 Gb/s and 20 ms: one limited by its receive window, and
//! one that fills the path and sometimes overflows its queue. Deterministic; for pictures and tests.

use schema::{
    Cause, EngineName, Event, EventKind, FlowKind, FlowSample, FlowSummary, HostInfo, Limited, LinkDirection,
    LinkSample, LinkSummary, PublishedResult, PublishedVerdict, Quality, Reliability, RunSummary,
    SUMMARY_SCHEMA, Summary,
};
use view::LoadedRun;

const MSS: f64 = 1448.0;
const RTT_S: f64 = 0.020;
const RATE_BPS: f64 = 9.56e9;
const QUEUE_MAX: f64 = 25e6;

/// A run of `seconds`, sampled every 10 ms, whose receive window can grow to `window_max` bytes.
pub fn run(variant: &str, seconds: u32, window_max: f64) -> LoadedRun {
    let mut noise = Noise(7);
    let (mut flows, mut links, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cwnd, mut ssthresh, mut since_loss, mut retransmitted, mut peak) =
        (10.0 * MSS, None, 0.0, 0i64, 0.0);
    let bdp = RATE_BPS * RTT_S / 8.0;
    for step in 1..=seconds * 100 {
        let time_us = i64::from(step) * 10_000;
        let window = window_max.min(64e3 + 2.2 * cwnd);
        let inflight = f64::min(cwnd, window);
        let queue = (inflight - bdp).clamp(0.0, QUEUE_MAX);
        let rtt_s = RTT_S + queue * 8.0 / RATE_BPS;
        let goodput = (inflight * 8.0 / rtt_s).min(RATE_BPS);
        let overflow = inflight - bdp > QUEUE_MAX;
        if overflow {
            retransmitted += 900;
            events.push(event(time_us, "s1-s2 forward", EventKind::DropQueue, 900));
            events.push(event(time_us, "bulk", EventKind::Retransmit, 900));
            (peak, since_loss) = (cwnd, 0.0);
            cwnd *= 0.7;
            ssthresh = Some(cwnd);
        } else if inflight >= window {
            // Limited by the receive window: cwnd no longer grows (RFC 7661).
        } else if ssthresh.is_none() {
            cwnd *= 2f64.powf(0.5);
        } else {
            since_loss += 0.01;
            let k = (peak * 0.3 / MSS / 0.4f64).cbrt();
            let target = peak / MSS + 0.4 * (since_loss - k).powi(3);
            cwnd = cwnd.max(target * MSS);
        }
        let limited_by = if ssthresh.is_none() && inflight < window && queue == 0.0 {
            Cause::SlowStart
        } else if inflight >= window {
            Cause::ReceiveWindow
        } else if overflow || (queue == 0.0 && ssthresh.is_some()) {
            Cause::Loss
        } else {
            Cause::PathRate
        };
        flows.push(FlowSample {
            time_us,
            flow: "bulk".into(),
            limited_by: Some(limited_by),
            goodput_bps: Some((goodput * noise.around(0.22)) as i64),
            state: Some(1),
            ca_state: Some(if overflow { 3 } else { 0 }),
            snd_cwnd_segs: Some((cwnd / MSS) as i64),
            snd_ssthresh_segs: ssthresh.map(|bytes| (bytes / MSS) as i64),
            snd_mss_bytes: Some(MSS as i64),
            snd_wnd_bytes: Some(window as i64),
            unacked_segs: Some((inflight / MSS) as i64),
            total_retrans_segs: Some(retransmitted),
            srtt_us: Some((rtt_s * 1e6 * noise.around(0.002)) as i64),
            min_rtt_us: Some(20_040),
            ..FlowSample::default()
        });
        if step % 20 == 10 {
            let first = if step == 10 { 20_100 } else { 0 };
            flows.push(FlowSample {
                time_us,
                flow: "ping".into(),
                srtt_us: Some((rtt_s * 1e6 * noise.around(0.004)) as i64 + first),
                ..FlowSample::default()
            });
        }
        for (direction, queue, rate) in
            [(LinkDirection::Forward, queue, goodput * 1.046), (LinkDirection::Backward, 0.0, goodput / 60.0)]
        {
            links.push(LinkSample {
                time_us,
                link: "s1-s2".into(),
                direction,
                rate_bps: Some(rate as i64),
                queue_bytes: Some(queue as i64),
                ..LinkSample::default()
            });
        }
    }
    LoadedRun::from_rows(
        summary(variant, seconds, &flows, retransmitted),
        format!("runs/lab8/20261121T031500Z-lab-{variant}"),
        flows,
        links,
        events,
    )
}

fn event(time_us: i64, subject: &str, kind: EventKind, value: i64) -> Event {
    Event { time_us, subject: subject.into(), kind, value }
}

fn summary(variant: &str, seconds: u32, flows: &[FlowSample], retransmitted: i64) -> Summary {
    let bulk: Vec<&FlowSample> = flows.iter().filter(|row| row.flow == "bulk").collect();
    let mean = |rows: &[&FlowSample]| {
        rows.iter().filter_map(|row| row.goodput_bps).map(|v| v as f64).sum::<f64>() / rows.len() as f64
    };
    let steady: Vec<&FlowSample> = bulk.iter().skip(bulk.len() / 5).copied().collect();
    let mut limited_steady = Limited::default();
    for row in &steady {
        *limited_steady.share_mut(row.limited_by.unwrap()) += 1.0 / steady.len() as f64;
    }
    let verdict = limited_steady.largest();
    let window = verdict == Some(Cause::ReceiveWindow);
    let flow = FlowSummary {
        name: "bulk".into(),
        from: "h1".into(),
        to: "h2".into(),
        kind: FlowKind::Tcp,
        cc: Some("cubic".into()),
        goodput_bps: Some(mean(&bulk)),
        steady_goodput_bps: Some(mean(&steady)),
        steady_from_s: Some(f64::from(seconds) / 5.0),
        bytes: Some((mean(&bulk) * f64::from(seconds) / 8.0) as u64),
        retransmitted_segs: Some(retransmitted as u64),
        sent_segs: Some(17_000_000),
        min_rtt_us: Some(20_040.0),
        mean_rtt_us: Some(if window { 20_110.0 } else { 29_400.0 }),
        max_cwnd_bytes: Some(bulk.iter().filter_map(|r| r.snd_cwnd_segs).max().unwrap() as u64 * 1448),
        mss_bytes: Some(1448),
        max_rcv_wnd_bytes: bulk.iter().filter_map(|r| r.snd_wnd_bytes).max().map(|v| v as u64),
        binding_window_bytes: window.then_some(10_600_000),
        wire_limit_bps: Some(RATE_BPS),
        limited: limited_steady,
        limited_steady,
        verdict,
        evidence: if window {
            vec![
                "The data in flight was at the peer's window of 10.6 MB in 97 % of the samples.".into(),
                "The window never grew past 63 % of the receive buffer's limit of 16.8 MB (tcp_rmem).".into(),
            ]
        } else {
            vec![
                "The queue of s1-s2 forward was never empty and the delivery rate stood at the link's rate."
                    .into(),
            ]
        },
        remedy: window.then(|| "net.ipv4.tcp_rmem = 10240 87380 52428800 on h2".into()),
        ..FlowSummary::default()
    };
    let ping = FlowSummary {
        name: "ping".into(),
        from: "h1".into(),
        to: "h2".into(),
        kind: FlowKind::Ping,
        first_rtt_us: Some(40_140.0),
        min_rtt_us: Some(20_020.0),
        median_rtt_us: Some(20_060.0),
        mean_rtt_us: Some(20_300.0),
        max_rtt_us: Some(40_140.0),
        pings_sent: Some(u64::from(seconds) * 5),
        pings_lost: Some(0),
        ..FlowSummary::default()
    };
    let link = LinkSummary {
        name: "s1-s2".into(),
        direction: LinkDirection::Forward,
        rate_bps: Some(10e9),
        utilization: Some(mean(&bulk) / RATE_BPS),
        sent_packets: 17_123_456,
        dropped_queue: retransmitted as u64,
        dropped_loss: 0,
        max_queue_bytes: if window { 180_000 } else { 25_000_000 },
        mean_queue_bytes: if window { 21_000.0 } else { 11_200_000.0 },
        ..LinkSummary::default()
    };
    let run = RunSummary {
        id: format!("20261121T031500Z-lab-{variant}"),
        engine: EngineName::Lab,
        variant: Some(variant.into()),
        kernel: None,
        sysctl_defaults: None,
        file: None,
        set: Default::default(),
        sweep: Default::default(),
        record: None,
        repeat: 1,
        seed: 1,
        duration_s: f64::from(seconds),
        wall_s: f64::from(seconds) + 1.3,
        started: "2026-11-21T03:15:00Z".into(),
        partial: false,
        flows: vec![flow, ping],
        links: vec![link],
        hosts: Vec::new(),
        fairness_jain: Some(1.0),
        quality: Quality {
            reliability: Reliability::Reliable,
            emulator_late_p50_us: Some(14.0),
            emulator_late_p99_us: Some(41.0),
            emulator_late_max_us: Some(320.0),
            cpu_idle_min: Some(0.21),
            ..Quality::default()
        },
        part_of: None,
        discarded: Vec::new(),
        path: Vec::new(),
    };
    Summary {
        schema: SUMMARY_SCHEMA.into(),
        scenario: "lab8".into(),
        title: "BDP and TCP buffer size <Lab 8>".into(),
        host: HostInfo { kernel: "6.18.5".into(), cpus: 2 },
        runs: vec![run],
        published: published(),
    }
}

fn published() -> Vec<PublishedResult> {
    let result =
        |id: &str, variant: &str, published: f64, model: f64, lab: f64, verdict, why: Option<&str>| {
            PublishedResult {
                id: id.into(),
                metric: "flows.bulk.goodput".into(),
                kind: schema::FigureKind::Published,
                claim: None,
                judged: Vec::new(),
                variant: Some(variant.into()),
                beside: None,
                published: Some(published),
                bound: None,
                unit: "bit/s".into(),
                tolerance: 0.15,
                model: Some(model),
                sim: None,
                lab: Some(lab),
                hosts: None,
                kernels: Vec::new(),
                model_published_kernel: why.map(|_| 3.35e9),
                verdict,
                faults: Vec::new(),
                known_miss: None,
                contradiction: None,
                why: why.map(str::to_owned),
            }
        };
    vec![
        result(
            "L8-default",
            "default",
            3e9,
            4.3e9,
            4.21e9,
            PublishedVerdict::Differs,
            Some("from Linux 6.6 on the receive window is more than half the buffer (scaling_ratio)"),
        ),
        result("L8-tuned", "tuned", 10e9, 9.56e9, 9.41e9, PublishedVerdict::Within, None),
    ]
}

/// A deterministic pseudorandom generator.
struct Noise(u64);

impl Noise {
    /// A factor of 1 plus or minus `spread`.
    fn around(&mut self, spread: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + spread * ((self.0 >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0)
    }
}

/// The summary of several runs, as `longfat run` prints it.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub fn summary_of(runs: &[LoadedRun]) -> Summary {
    Summary {
        schema: SUMMARY_SCHEMA.into(),
        scenario: runs[0].scenario.clone(),
        title: runs[0].title.clone(),
        host: runs[0].host.clone(),
        runs: runs.iter().map(|run| run.run.clone()).collect(),
        published: published(),
    }
}
