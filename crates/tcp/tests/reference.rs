//! Reno flows against the real kernel: Linux 6.1 in virtual time, 120 s each, offloads off.
//!
//! A single flow without random loss is the same in each run of the kernel, within 0.02 %.

use crate::pair;
use pair::{Pair, Path, chance, reference};

/// Measurements of the kernel.
struct Observed {
    goodput_mbps: f64,
    second_half_mbps: f64,
    retransmitted: u32,
    mean_cwnd: f64,
    mean_srtt_ms: f64,
    max_cwnd: u32,
    ssthresh_after_slow_start: Option<u32>,
    acks_per_segment: f64,
}

/// Checks that `is` is within `percent` of the observed value.
fn close(what: &str, is: f64, observed: f64, percent: f64) -> Result<(), String> {
    let percent_off = (is / observed - 1.0) * 100.0;
    println!("{what:>16}: {is:10.3}, observed {observed:10.3}: {percent_off:+.2} %");
    if percent_off.abs() <= percent { Ok(()) } else { Err(format!("{what} {is}, observed {observed}")) }
}

fn check(mtu: u32, max_buffer: u32, gso_segs: u16, path: Path, observed: &Observed) {
    let mut config = reference(mtu, max_buffer);
    config.gso_max_segs = gso_segs;
    let mut pair = Pair::new(config, path, None);
    // The kernel joined 93 % of the received segments with one that was not read yet (TCPRcvCoalesce).
    pair.reads_late = true;
    let (mut cwnd, mut srtt_ms, mut samples, mut half, mut max_cwnd) = (0.0, 0.0, 0.0, 0, 0);
    let mut ssthresh = None;
    for tenth in 1..=12_000u64 {
        pair.run(tenth * 10_000_000);
        let info = pair.sender.info(pair.now);
        max_cwnd = max_cwnd.max(info.snd_cwnd_segs);
        ssthresh = ssthresh.or(info.snd_ssthresh_segs);
        if tenth == 6000 {
            half = info.bytes_acked;
        }
        if tenth > 6000 {
            cwnd += f64::from(info.snd_cwnd_segs);
            srtt_ms += f64::from(info.srtt_us) / 1e3;
            samples += 1.0;
        }
    }
    let info = pair.sender.info(pair.now);
    let mbps = |bytes: u64, seconds: f64| bytes as f64 * 8e-6 / seconds;
    let mut results = vec![
        close("goodput", mbps(info.bytes_acked, 120.0), observed.goodput_mbps, 2.0),
        close("second half", mbps(info.bytes_acked - half, 60.0), observed.second_half_mbps, 2.0),
        close("mean cwnd", cwnd / samples, observed.mean_cwnd, 5.0),
        close("mean srtt", srtt_ms / samples, observed.mean_srtt_ms, 5.0),
        close("max cwnd", f64::from(max_cwnd), f64::from(observed.max_cwnd), 5.0),
        close("retransmitted", f64::from(info.total_retrans_segs), f64::from(observed.retransmitted), 15.0),
        close("ACKs per segment", pair.acks as f64 / pair.arrived as f64, observed.acks_per_segment, 5.0),
    ];
    if let Some(first) = observed.ssthresh_after_slow_start {
        results.push(close("first ssthresh", ssthresh.map_or(0.0, f64::from), f64::from(first), 5.0));
    }
    println!("          drops: {}, timeouts: {}", pair.dropped, info.total_rto);
    let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(u64::from(info.total_retrans_segs), pair.dropped, "each drop is repaired once");
    assert_eq!(info.total_rto, 0);
}

fn mbps_100(queue: usize) -> Path {
    Path::new(100_000_000, 100_000_000, queue)
}

#[test]
fn a_queue_of_one_bdp() {
    let observed = Observed {
        goodput_mbps: 95.122,
        second_half_mbps: 95.6405,
        retransmitted: 1653,
        mean_cwnd: 1457.41,
        mean_srtt_ms: 175.975,
        max_cwnd: 3260,
        ssthresh_after_slow_start: Some(1651),
        acks_per_segment: 0.5049,
    };
    check(1500, 72_108_864, u16::MAX, mbps_100(826), &observed);
}

#[test]
fn a_queue_of_a_tenth_of_a_bdp() {
    let observed = Observed {
        goodput_mbps: 69.6228,
        second_half_mbps: 78.3835,
        retransmitted: 163,
        mean_cwnd: 692.81,
        mean_srtt_ms: 101.806,
        max_cwnd: 909,
        ssthresh_after_slow_start: Some(243),
        acks_per_segment: 0.5009,
    };
    check(1500, 72_108_864, u16::MAX, mbps_100(83), &observed);
}

#[test]
fn a_short_queue_without_super_packets() {
    let observed = Observed {
        goodput_mbps: 69.8924,
        second_half_mbps: 78.5108,
        retransmitted: 155,
        mean_cwnd: 690.76,
        mean_srtt_ms: 101.703,
        max_cwnd: 909,
        ssthresh_after_slow_start: Some(242),
        acks_per_segment: 0.5001,
    };
    check(1500, 72_108_864, 1, mbps_100(83), &observed);
}

#[test]
fn jumbo_packets_at_a_gigabit() {
    let observed = Observed {
        goodput_mbps: 581.1043,
        second_half_mbps: 738.2112,
        retransmitted: 283,
        mean_cwnd: 1212.39,
        mean_srtt_ms: 117.327,
        max_cwnd: 1468,
        ssthresh_after_slow_start: Some(458),
        acks_per_segment: 0.5053,
    };
    check(9000, 125_608_864, u16::MAX, Path::new(1_000_000_000, 117_000_000, 162), &observed);
}

/// 100 Mb/s, 50 ms, a queue of one BDP, loss of 1 in 10,000 packets: means over eight runs of 120 s each.
/// Single runs differ by up to 23 %; in one of the kernel's runs the first loss happened before the queue was
/// full.
#[test]
fn random_losses() {
    const RUNS: u64 = 24;
    let (mut goodput, mut rest, mut retransmitted, mut timeouts) = (0.0, 0.0, 0, 0);
    for seed in 1..=RUNS {
        let mut path = Path::new(100_000_000, 50_000_000, 413);
        path.loses = Box::new(move |number| chance(seed << 32, number, 100));
        let mut pair = Pair::new(reference(1500, 69_608_864), path, None);
        pair.run(60_000_000_000);
        let half = pair.sender.sk().bytes_acked;
        pair.run(120_000_000_000);
        let info = pair.sender.info(pair.now);
        goodput += info.bytes_acked as f64 * 8e-6 / 120.0 / RUNS as f64;
        rest += (info.bytes_acked - half) as f64 * 8e-6 / 60.0 / RUNS as f64;
        retransmitted += info.total_retrans_segs;
        timeouts += info.total_rto;
        // Losses of the last round trip are not retransmitted yet.
        assert!(
            pair.dropped - u64::from(info.total_retrans_segs) <= 1,
            "{} of {}",
            info.total_retrans_segs,
            pair.dropped
        );
    }
    println!("   mean goodput: {goodput:.2}, {rest:.2}; {} retransmitted", u64::from(retransmitted) / RUNS);
    assert!((goodput / 30.745 - 1.0).abs() < 0.1, "{goodput} Mb/s, observed mean 30.7");
    assert!((rest / 28.32 - 1.0).abs() < 0.1, "{rest} Mb/s in the second half, observed mean 28.3");
    assert_eq!(timeouts, 0);
}

/// 1 Gb/s, 20 ms, buffers of at most 1 MiB: half of the receive buffer is window, which is the limit.
#[test]
fn half_of_the_receive_buffer_limits_the_goodput() {
    let path = Path::new(1_000_000_000, 20_000_000, 1651);
    let mut pair = Pair::new(reference(1500, 1 << 20), path, None);
    pair.run(10_000_000_000);
    let half = pair.sender.sk().bytes_acked;
    pair.run(20_000_000_000);
    let info = pair.sender.info(pair.now);
    let results = [
        close("goodput", info.bytes_acked as f64 * 8e-6 / 20.0, 204.2432, 2.0),
        close("second half", (info.bytes_acked - half) as f64 * 8e-6 / 10.0, 205.1941, 2.0),
        close("srtt", f64::from(info.srtt_us) / 1e3, 20.194, 2.0),
        close("ACKs per segment", pair.acks as f64 / pair.arrived as f64, 0.5143, 3.0),
        close("window limited", info.rwnd_limited_us as f64, info.busy_time_us as f64, 5.0),
    ];
    let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let receiver = pair.receiver.info(pair.now);
    assert_eq!((pair.dropped, receiver.rcvbuf_bytes), (0, 1 << 20));
    assert!(receiver.rcv_ssthresh_bytes.abs_diff(523_540) < 1448, "{receiver:?}");
}
