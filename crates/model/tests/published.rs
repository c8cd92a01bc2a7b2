//! Compares the closed forms with the published tables, and finds the rows that contradict the publication's
//! own formula.

use model::{
    Aimd, IpVersion, MAX_WINDOW, Transport, bdp, fair_increase, goodput_bps, hol_throughput_share,
    payload_bytes, queue_for_full_use, regain_time, responsiveness, sawtooth_utilization, scaled_window,
    throughput_bps, window_utilization,
};
use units::{BitRate, Bytes, Time};

const MBPS: u64 = 1_000_000;
const GBPS: u64 = 1_000_000_000;

fn reno(rate: u64, rtt_ms: u64, mss: u32) -> f64 {
    responsiveness(Aimd::RENO, BitRate(rate), Time::from_millis(rtt_ms), mss)
}

fn near(ours: f64, expected: f64, tolerance: f64, id: &str) {
    assert!((ours / expected - 1.0).abs() <= tolerance, "{id}: {ours}, {expected} expected");
}

/// G-r1 to G-r9: C in bit/s, RTT in ms, MSS in bytes, the published time in s, and the formula's time in s.
#[test]
fn responsiveness_of_grid_dt() {
    let rows: [(&str, u64, u64, u32, f64, f64); 10] = [
        ("G-r1 short", 10 * MBPS, 2, 1460, 0.0017, 0.00171),
        ("G-r1 long", 10 * MBPS, 20, 1460, 0.171, 0.171),
        ("G-r2", GBPS, 2, 1460, 0.096, 0.171),
        ("G-r3", 10 * GBPS, 2, 1460, 1.7, 1.71),
        ("G-r4", GBPS, 120, 1460, 600.0, 616.0),
        ("G-r5", GBPS, 180, 1460, 1380.0, 1387.0),
        ("G-r6", GBPS, 300, 1460, 3840.0, 3853.0),
        ("G-r7", 5 * GBPS / 2, 180, 1460, 3480.0, 3467.0),
        ("G-r8", 10 * GBPS, 120, 1460, 5520.0, 6164.0),
        ("G-r9", 10 * GBPS, 120, 8960, 900.0, 1004.0),
    ];
    // These three do not follow from the publication's own formula.
    let contradicted = ["G-r2", "G-r8", "G-r9"];
    for (id, rate, rtt_ms, mss, published, formula) in rows {
        let ours = reno(rate, rtt_ms, mss);
        near(ours, formula, 0.005, id);
        let agrees = (ours / published - 1.0).abs() < 0.03;
        assert_eq!(agrees, !contradicted.contains(&id), "{id}: {ours} s, published {published} s");
    }
    // G-r8 and G-r9 fit a round-trip time of 113.6 ms, G-r2 one of 1.5 ms.
    let at = |rate, micros, mss| responsiveness(Aimd::RENO, BitRate(rate), Time::from_micros(micros), mss);
    near(at(10 * GBPS, 113_600, 1460), 5520.0, 0.005, "G-r8 at 113.6 ms");
    near(at(10 * GBPS, 113_600, 8960), 900.0, 0.005, "G-r9 at 113.6 ms");
    near(at(GBPS, 1_500, 1460), 0.096, 0.01, "G-r2 at 1.5 ms");
}

/// G-recover: Reno regains 120 Mb/s at an RTT of 117 ms in 141 s, and in twice that on a stack that counts
/// delayed ACKs. The published time is over 6 min.
#[test]
fn recovery_after_one_loss() {
    let (rate, rtt) = (BitRate(120 * MBPS), Time::from_millis(117));
    near(regain_time(Aimd::RENO, rate, rtt, 1460), 141.0, 0.01, "G-recover");
    near(regain_time(Aimd::RENO_DELAYED_ACK, rate, rtt, 1460), 281.0, 0.01, "G-recover, delayed ACKs");
}

/// G-model and G-auto: equal shares need an increase that grows as RTT^2 and shrinks as the MSS grows.
#[test]
fn increases_for_fairness() {
    let increase = |rtt, mss, reference_rtt, reference_mss| {
        fair_increase(Time::from_millis(rtt), mss, Time::from_millis(reference_rtt), reference_mss)
    };
    near(increase(181, 8960, 117, 8960), 2.39, 0.005, "G-model");
    near(increase(100, 8960, 10, 8960), 100.0, 1e-9, "G-auto, RTT");
    near(increase(10, 1500, 10, 9000), 6.0, 1e-9, "G-auto, MTU 1500");
    near(increase(10, 3000, 10, 9000), 3.0, 1e-9, "G-auto, MTU 3000");
}

/// G-areas and G-endbuf: with a window below the bandwidth-delay product, throughput is window / RTT. A queue
/// of one product keeps Reno's path full.
#[test]
fn windows_and_queues() {
    let (rate, rtt) = (BitRate(GBPS), Time::from_millis(117));
    let half = Bytes(bdp(rate, rtt).0 / 2);
    near(throughput_bps(half, rtt), 0.5e9, 1e-6, "G-areas 1");
    near(window_utilization(Bytes(3 * half.0), rate, rtt), 1.0, 1e-9, "G-areas 2");
    near(queue_for_full_use(Aimd::RENO.decrease), 1.0, 1e-9, "G-endbuf");
    near(sawtooth_utilization(Aimd::RENO, 1.0), 1.0, 1e-9, "G-endbuf");
    assert!(sawtooth_utilization(Aimd::RENO, 0.0616) > 0.75, "G-areas: above 75 % with 900 kB of queue");
}

/// H-udp957, H-tcp941, H-lab; L8-check's payload limits behind tbf.
#[test]
fn wire_rates() {
    let goodput = |rate, mtu, transport: Transport, overhead| {
        let payload = payload_bytes(mtu, IpVersion::V4, transport);
        goodput_bps(BitRate(rate), payload, mtu - payload, overhead)
    };
    near(goodput(GBPS, 1500, Transport::Udp, 38), 957e6, 0.0005, "H-udp957");
    near(goodput(GBPS, 1500, Transport::Tcp, 38), 941e6, 0.0006, "H-tcp941");
    near(goodput(10 * GBPS, 1500, Transport::Tcp, 14), 9.56e9, 0.0005, "L8-check, MTU 1500");
    near(goodput(10 * GBPS, 9000, Transport::Tcp, 14), 9.93e9, 0.0005, "L8-check, MTU 9000");
    let product = bdp(BitRate(800 * MBPS), Time::from_millis(88));
    assert_eq!(2 * product.0, 17_600_000, "H-lab");
}

/// L8-bdp, L8-util, L8-hol, L8-wscale, U-bdp.
#[test]
fn windows_of_lab_8() {
    let (rate, rtt) = (BitRate(10 * GBPS), Time::from_millis(50));
    assert_eq!(bdp(rate, rtt), Bytes(62_500_000));
    near(window_utilization(Bytes(1 << 20), rate, rtt), 0.0168, 0.002, "L8-util");
    near(hol_throughput_share(bdp(rate, rtt), rate, rtt), 0.5, 1e-9, "L8-hol, one product");
    near(hol_throughput_share(Bytes(125_000_000), rate, rtt), 1.0, 1e-9, "L8-hol, two products");
    assert_eq!(MAX_WINDOW, Bytes(1_073_725_440), "L8-wscale");
    assert_eq!(scaled_window(2049, 9), Bytes(1_049_088), "L8-wscale's example: a factor of 512");
    assert_eq!(bdp(BitRate(GBPS), Time::from_micros(150)).0, 18_750, "U-bdp: 18.3 KiB");
}
