//! All closed forms for one path, each with an explanation: the output of `longfat bdp`.

use units::{BitRate, Bytes, KernelVersion, Time, group_digits};

use crate::{
    Aimd, IpVersion, MAX_WINDOW, SCALING_RATIO_SINCE, SlowStart, Transport, bdp, bdp_f64, buffer_advice,
    cubic_recovery_time, cubic_utilization, cubic_window_segs, fair_increase, goodput_bps,
    hol_throughput_share, loss_for_cubic, loss_for_reno, loss_period::MIN_RTO, mathis_bps, mss,
    payload_bytes, pftk_bps, queue_for_full_use, responsiveness, sawtooth_utilization, throughput_bps,
    window_scale, window_share, window_throughput_bps, window_utilization,
};

/// Bytes per packet that tbf counts in addition to IP.
const TBF_OVERHEAD_BYTES: u32 = 14;
/// The path and the MTU for which an increase of 1 is fair, as in S. Ravot's "Grid DT" (2003).
const FAIR_RTT: Time = Time::from_millis(10);
const FAIR_MTU: u32 = 9_000;

/// The path and the optional inputs of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportInputs {
    /// Rate of the slowest link, above 0.
    pub rate: BitRate,
    /// Round-trip time, above 0.
    pub rtt: Time,
    /// MTU, bytes of IP.
    pub mtu: u32,
    /// Payload bytes of a segment; `None` derives them from the MTU.
    pub mss: Option<u32>,
    /// IP version.
    pub ip: IpVersion,
    /// Bytes per packet on the wire in addition to IP.
    pub overhead: u32,
    /// Loss rate per segment.
    pub loss: Option<f64>,
    /// A window, as advertised or held in flight.
    pub window: Option<Bytes>,
    /// A socket buffer as the kernel charges it (the third value of tcp_rmem or tcp_wmem; twice the value of
    /// SO_RCVBUF).
    pub buffer: Option<Bytes>,
    /// The queue before the slowest link.
    pub queue: Option<Bytes>,
    /// The hosts' kernel.
    pub kernel: KernelVersion,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportFigure {
    /// Its key in JSON, with the unit as suffix.
    pub key: &'static str,
    /// Its value in that unit.
    pub value: f64,
    /// Its name in a few words.
    pub name: &'static str,
    /// Its formatted value.
    pub text: String,
    /// The sentence that explains it.
    pub sentence: String,
}

/// Figures that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportGroup {
    /// A heading.
    pub title: String,
    /// The figures.
    pub figures: Vec<ReportFigure>,
}

/// All figures for which the inputs suffice.
pub fn report(inputs: &ReportInputs) -> Vec<ReportGroup> {
    let mut groups = vec![path(inputs), buffers(inputs)];
    groups.extend(inputs.window.map(|window| window_group(inputs, window)));
    groups.extend(inputs.buffer.map(|buffer| buffer_group(inputs, buffer)));
    groups.push(wire(inputs));
    groups.push(start_and_recovery(inputs));
    groups.push(queue(inputs));
    groups.push(losses(inputs));
    groups
}

fn path(inputs: &ReportInputs) -> ReportGroup {
    let product = bdp(inputs.rate, inputs.rtt);
    let segment = segment(inputs);
    let segments = bdp_f64(inputs.rate, inputs.rtt) / f64::from(segment);
    ReportGroup {
        title: "The path".into(),
        figures: vec![
            bytes(
                "bdp_bytes",
                "bandwidth-delay product",
                product.as_f64(),
                "rate x RTT: the bytes in flight that keep the path full",
            ),
            plain(
                "mss_bytes",
                "segment size",
                f64::from(segment),
                format!("{segment} B"),
                match inputs.mss {
                    Some(_) => "payload of a full segment, as given".into(),
                    None => format!(
                        "payload of a full segment: MTU {} less {} B of IP and 32 B of TCP header with timestamps",
                        inputs.mtu,
                        inputs.ip.header_bytes()
                    ),
                },
            ),
            plain(
                "bdp_segs",
                "the product in segments",
                segments.ceil(),
                group_digits(segments.ceil() as u64),
                "the congestion window, in segments, at which the path is full".into(),
            ),
        ],
    }
}

fn buffers(inputs: &ReportInputs) -> ReportGroup {
    let product = bdp_f64(inputs.rate, inputs.rtt);
    let advice = buffer_advice(product);
    let share = share(inputs);
    let learnt = if inputs.kernel >= SCALING_RATIO_SINCE {
        format!(
            "from Linux 6.6 on the kernel derives the share from the packets; about {} with this MTU on this path, 60 to 85 % elsewhere",
            percent(share)
        )
    } else {
        "up to 6.5 the kernel advertises half of a receive buffer as window (tcp_adv_win_scale = 1)".into()
    };
    let scale = window_scale(Bytes(product.ceil() as u64));
    let scale_text = scale.map_or("impossible".into(), |s| s.to_string());
    ReportGroup {
        title: format!("Socket buffers, for Linux {}.{}", inputs.kernel.major, inputs.kernel.minor),
        figures: vec![
            bytes("buffer_bytes", "buffer to set", advice.default.as_f64(),
                "third value of net.ipv4.tcp_rmem and tcp_wmem on both hosts: twice the product, rounded up to whole MiB, because only a part of a buffer becomes window, \
                 the sender keeps as little as two thirds in flight, and data accumulates for a round trip behind a lost segment"),
            bytes("buffer_bbr_loss_bytes", "the same for BBR with losses", advice.bbr_with_loss.as_f64(),
                "four times that: BBR keeps sending through moderate to high loss, and data of several round trips accumulates"),
            plain("window_share", "window of a buffer", share, percent(share), learnt),
            plain("window_scale", "window scale needed", scale.map_or(f64::NAN, f64::from), scale_text, format!(
                "the header's 16 bits times 2^scale must reach the product; at most 2^14, {} B", group_digits(MAX_WINDOW.0))),
            bytes("largest_window_bytes", "largest possible window", MAX_WINDOW.as_f64(),
                "65,535 times 2^14: the 16-bit header field limits one connection to it, whatever the buffers"),
            plain("hol_share_1bdp", "one loss, receive buffer of 1 BDP", hol_throughput_share(Bytes(product as u64), inputs.rate, inputs.rtt),
                percent(hol_throughput_share(Bytes(product as u64), inputs.rate, inputs.rtt)),
                "after one lost segment nothing is delivered for a round trip: with a window of one product the sender stalls, and two round trips deliver half".into()),
        ],
    }
}

fn window_group(inputs: &ReportInputs, window: Bytes) -> ReportGroup {
    let utilization = window_utilization(window, inputs.rate, inputs.rtt);
    let throughput = throughput_bps(window, inputs.rtt).min(inputs.rate.as_f64());
    let on_wire = inputs.rate.transmit_time(window).as_secs_f64();
    ReportGroup {
        title: format!("A window of {window} (in flight, as the peer advertises it)"),
        figures: vec![
            plain(
                "utilization",
                "share of the path used",
                round(utilization, 4),
                percent(utilization),
                "window / product: the window is sent once per round trip, the path could carry the product"
                    .into(),
            ),
            rate("window_throughput_bps", "throughput", throughput, "window / RTT, at most the rate"),
            plain(
                "window_on_wire_s",
                "time on the wire",
                on_wire,
                seconds(on_wire),
                format!(
                    "the window is sent after this time, then the sender waits for the first ACK at {}",
                    inputs.rtt
                ),
            ),
        ],
    }
}

fn buffer_group(inputs: &ReportInputs, buffer: Bytes) -> ReportGroup {
    let window = Bytes((buffer.as_f64() * share(inputs)) as u64);
    let tuned = crate::SocketBuffer::Tuned { largest: buffer };
    let sent = Bytes(crate::send_buffer_window(tuned) as u64);
    let limit = inputs.rate.as_f64();
    ReportGroup {
        title: format!(
            "A socket buffer of {buffer} (as the kernel charges it: the sysctl's value, or twice the value of SO_RCVBUF)"
        ),
        figures: vec![
            bytes(
                "buffer_window_bytes",
                "as receive buffer: window",
                window.as_f64(),
                "the part of it that becomes window (see `window of a buffer`)",
            ),
            plain(
                "buffer_utilization",
                "share of the path used",
                round(window_utilization(window, inputs.rate, inputs.rtt), 4),
                percent(window_utilization(window, inputs.rate, inputs.rtt)),
                "that window / product".into(),
            ),
            rate(
                "buffer_throughput_bps",
                "throughput",
                throughput_bps(window, inputs.rtt).min(limit),
                "that window / RTT, at most the rate",
            ),
            bytes(
                "send_buffer_window_bytes",
                "as send buffer: in flight",
                sent.as_f64(),
                "the writer is woken when a third is free, so use swings between two thirds and all of it; this much on average",
            ),
            rate(
                "send_buffer_throughput_bps",
                "throughput",
                crate::send_buffer_bps(tuned, Some(inputs.rate), inputs.rtt).min(limit),
                "that / (RTT + the time that a refill of a third takes on the link), at most the rate",
            ),
        ],
    }
}

fn wire(inputs: &ReportInputs) -> ReportGroup {
    let tcp = |overhead| {
        goodput_bps(
            inputs.rate,
            segment(inputs),
            inputs.ip.header_bytes() + Transport::Tcp.header_bytes(),
            overhead,
        )
    };
    let udp = goodput_bps(
        inputs.rate,
        payload_bytes(inputs.mtu, inputs.ip, Transport::Udp),
        inputs.ip.header_bytes() + Transport::Udp.header_bytes(),
        inputs.overhead,
    );
    ReportGroup {
        title: format!("Goodput at wire rate, MTU {}", inputs.mtu),
        figures: vec![
            rate(
                "tcp_goodput_bps",
                "TCP",
                tcp(inputs.overhead),
                &format!(
                    "payload of back-to-back packets that count {} B in addition to IP (38: Ethernet with preamble and gap)",
                    inputs.overhead
                ),
            ),
            rate(
                "tcp_goodput_tbf_bps",
                "TCP behind tbf",
                tcp(TBF_OVERHEAD_BYTES),
                "the same where only the Ethernet header of 14 B counts, as in Linux's tbf",
            ),
            rate("udp_goodput_bps", "UDP", udp, "as TCP, with a header of 8 B; test a host with UDP first"),
        ],
    }
}

fn start_and_recovery(inputs: &ReportInputs) -> ReportGroup {
    let product = bdp_f64(inputs.rate, inputs.rtt);
    let segment = segment(inputs);
    let start = SlowStart::new(product, segment, inputs.rtt);
    let reno = responsiveness(Aimd::RENO, inputs.rate, inputs.rtt, segment);
    let delayed = responsiveness(Aimd::RENO_DELAYED_ACK, inputs.rate, inputs.rtt, segment);
    let cubic = cubic_recovery_time(product / f64::from(segment));
    let duration = |s: f64| plain_seconds(s);
    let fair = fair_increase(inputs.rtt, inputs.mtu, FAIR_RTT, FAIR_MTU);
    ReportGroup {
        title: "Slow start, and recovery after one loss".into(),
        figures: vec![
            duration(start.settled_s()).named("slow_start_s", "slow start", format!(
                "handshake and {:.1} doublings from ten segments until the path is full; a shorter test measures the start", start.rounds())),
            duration(reno).named("reno_recovery_s", "Reno's recovery", "C x RTT^2 / (2 MSS): one segment more each round trip until the lost half is restored".into()),
            duration(delayed).named("reno_delayed_ack_recovery_s", "the same, counting ACKs", "twice as long on stacks that count delayed ACKs instead of segments (Linux 2.4)".into()),
            plain("fair_increase", "increase that is fair", round(fair, 3), format!("{fair:.2}"), format!(
                "Grid DT's A for the same share as Reno with {} and an MTU of {FAIR_MTU}: the square of the ratio of the RTTs, divided by the ratio of the MTUs", FAIR_RTT)),
            duration(cubic).named("cubic_recovery_s", "CUBIC's recovery", "cbrt(0.3 W / 0.4) for a window W in segments: grows with the cube root, not with the RTT".into()),
        ],
    }
}

fn queue(inputs: &ReportInputs) -> ReportGroup {
    let product = bdp_f64(inputs.rate, inputs.rtt);
    let mut figures = vec![bytes(
        "queue_full_use_reno_bytes",
        "queue that keeps Reno's path full",
        product * queue_for_full_use(Aimd::RENO.decrease),
        "one product: after halving the window still fills the path; CUBIC needs three sevenths of it",
    )];
    if let Some(queue) = inputs.queue {
        let share = queue.as_f64() / product;
        let (reno, cubic) = (sawtooth_utilization(Aimd::RENO, share), cubic_utilization(share));
        let delay = inputs.rate.transmit_time(queue).as_secs_f64();
        figures.extend([
            plain(
                "queue_delay_s",
                "delay of a full queue",
                delay,
                seconds(delay),
                "queue / rate, on top of the RTT".into(),
            ),
            plain(
                "reno_utilization",
                "Reno uses",
                round(reno, 4),
                percent(reno),
                format!("share of the path with a queue of {:.2} products", share),
            ),
            plain(
                "cubic_utilization",
                "CUBIC uses",
                round(cubic, 4),
                percent(cubic),
                "the same for CUBIC, which reduces its window by 30 % at a loss".into(),
            ),
        ]);
    }
    ReportGroup { title: "The queue before the slowest link".into(), figures }
}

fn losses(inputs: &ReportInputs) -> ReportGroup {
    let segment = segment(inputs);
    let segments = bdp_f64(inputs.rate, inputs.rtt) / f64::from(segment);
    let (reno, cubic) = (loss_for_reno(segments), loss_for_cubic(segments, inputs.rtt));
    let one_in = |loss: f64| format!("one segment in {}", group_digits((1.0 / loss).round() as u64));
    let mut figures = vec![
        plain(
            "full_path_loss_reno",
            "loss that Reno tolerates",
            reno,
            one_in(reno),
            "above this random loss Reno cannot sustain a window of one product".into(),
        ),
        plain(
            "full_path_loss_cubic",
            "loss that CUBIC tolerates",
            cubic,
            one_in(cubic),
            "the same for CUBIC".into(),
        ),
    ];
    if let Some(loss) = inputs.loss.filter(|loss| *loss > 0.0) {
        let limit = inputs.rate.as_f64();
        let rto = inputs.rtt.max(MIN_RTO);
        let cubic = window_throughput_bps(cubic_window_segs(loss, inputs.rtt), segment, inputs.rtt);
        figures.extend([
            rate(
                "mathis_bps",
                "Reno at this loss (Mathis)",
                mathis_bps(loss, segment, inputs.rtt, 1.0).min(limit),
                "MSS / RTT x sqrt(3 / 2p)",
            ),
            rate(
                "mathis_delayed_ack_bps",
                "the same, counting ACKs",
                mathis_bps(loss, segment, inputs.rtt, 2.0).min(limit),
                "MSS / RTT x sqrt(3 / 4p)",
            ),
            rate(
                "pftk_bps",
                "Reno with timeouts (Padhye)",
                pftk_bps(loss, segment, inputs.rtt, rto, 1.0, segments).min(limit),
                "the full model: timeouts matter from about 1 % of loss on",
            ),
            rate(
                "cubic_bps",
                "CUBIC at this loss",
                cubic.min(limit),
                "MSS / RTT x 1.054 (RTT / p)^(3/4), at least Reno's (RFC 9438)",
            ),
        ]);
    }
    ReportGroup { title: "Random loss".into(), figures }
}

fn segment(inputs: &ReportInputs) -> u32 {
    inputs.mss.unwrap_or_else(|| mss(inputs.mtu, inputs.ip, None)).max(1)
}

fn share(inputs: &ReportInputs) -> f64 {
    // Rounded as printed, so that figures derived from it agree with the printed value.
    round(window_share(inputs.kernel, segment(inputs), inputs.rtt), 4)
}

fn plain(key: &'static str, name: &'static str, value: f64, text: String, sentence: String) -> ReportFigure {
    ReportFigure { key, value, name, text, sentence }
}

fn bytes(key: &'static str, name: &'static str, value: f64, sentence: &str) -> ReportFigure {
    // Corrects whole numbers of bytes that floating-point rounding left just below.
    let whole = Bytes((value * (1.0 + 4.0 * f64::EPSILON)) as u64);
    let mib = value / 1_048_576.0;
    let text = format!("{} B ({mib:.1} MiB)", group_digits(whole.0));
    plain(key, name, whole.as_f64(), text, sentence.into())
}

fn rate(key: &'static str, name: &'static str, bps: f64, sentence: &str) -> ReportFigure {
    let text = match bps {
        b if b >= 1e9 => format!("{:.3} Gb/s", b * 1e-9),
        b if b >= 1e6 => format!("{:.2} Mb/s", b * 1e-6),
        b => format!("{:.2} kb/s", b * 1e-3),
    };
    plain(key, name, round(bps, 0), text, sentence.into())
}

/// A duration without its key, name and sentence.
struct UnnamedSeconds(f64);

fn plain_seconds(value: f64) -> UnnamedSeconds {
    UnnamedSeconds(value)
}

impl UnnamedSeconds {
    fn named(self, key: &'static str, name: &'static str, sentence: String) -> ReportFigure {
        plain(key, name, round(self.0, 6), seconds(self.0), sentence)
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if v >= 3600.0 => format!("{} h {:02} min", (v / 3600.0) as u64, (v % 3600.0 / 60.0) as u64),
        v if v >= 60.0 => format!("{} min {:02} s", (v / 60.0) as u64, (v % 60.0) as u64),
        v if v >= 1.0 => format!("{v:.2} s"),
        v if v >= 1e-3 => format!("{:.2} ms", v * 1e3),
        v => format!("{:.2} us", v * 1e6),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn round(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(rate: u64, rtt_ms: u64) -> ReportInputs {
        ReportInputs {
            rate: BitRate(rate),
            rtt: Time::from_millis(rtt_ms),
            mtu: 1500,
            mss: None,
            ip: IpVersion::V4,
            overhead: 38,
            loss: Some(0.001),
            window: Some(Bytes(1 << 20)),
            buffer: Some(Bytes(16 << 20)),
            queue: Some(Bytes(1_000_000)),
            kernel: KernelVersion::new(6, 1),
        }
    }

    fn figure(inputs: &ReportInputs, key: &str) -> f64 {
        report(inputs).iter().flat_map(|g| &g.figures).find(|f| f.key == key).unwrap().value
    }

    /// A figure that a sentence derives from others follows from them as printed.
    #[test]
    fn figures_follow_from_those_that_their_sentences_name() {
        let number =
            |text: &str| -> f64 { text.split_whitespace().next().unwrap().replace(',', "").parse().unwrap() };
        for rate in [1_000_000, 9_999_999, 100_000_000, 622_080_000, 10_000_000_000, 99_000_000_001] {
            for (rtt_us, kernel) in [(150, (6, 1)), (7_300, (6, 6)), (50_000, (6, 12)), (299_999, (6, 18))] {
                let inputs = ReportInputs {
                    rtt: Time::from_nanos(rtt_us * 1000),
                    kernel: KernelVersion::new(kernel.0, kernel.1),
                    ..inputs(rate, 1)
                };
                let groups = report(&inputs);
                let printed = |key: &str| {
                    let figure = groups.iter().flat_map(|g| &g.figures).find(|f| f.key == key).unwrap();
                    (number(&figure.text), figure.value)
                };
                let bdp = printed("bdp_bytes").0;
                // "rate x RTT"
                assert_eq!(bdp, (rate as f64 * rtt_us as f64 / 8e6).floor(), "{rate} {rtt_us}");
                // "twice the product, rounded up to whole MiB"
                let buffer = printed("buffer_bytes").0;
                assert_eq!(buffer % 1_048_576.0, 0.0);
                assert!((0.0..=1_048_577.0).contains(&(buffer - 2.0 * bdp)), "{buffer} {bdp}");
                // "four times that"
                assert_eq!(printed("buffer_bbr_loss_bytes").0, 4.0 * buffer, "{rate} {rtt_us}");
                // "one product"
                assert_eq!(printed("queue_full_use_reno_bytes").0, bdp, "{rate} {rtt_us}");
                // "the product in segments"
                let segments = bdp / printed("mss_bytes").0;
                assert!((segments..segments + 1.001).contains(&printed("bdp_segs").0), "{segments}");
                // "the part of it that becomes window"
                let window = (16 << 20) as f64 * printed("window_share").0 / 100.0;
                assert!((window - printed("buffer_window_bytes").0).abs() <= 1.0, "{window}");
                // "that window / RTT, at most the rate"
                let throughput = (window * 8e6 / rtt_us as f64).min(rate as f64);
                let shown = printed("buffer_throughput_bps").1;
                assert!((throughput / shown - 1.0).abs() < 1e-4, "{throughput} {shown}");
                // "twice as long"
                let reno = printed("reno_recovery_s").1;
                let delayed = printed("reno_delayed_ack_recovery_s").1;
                assert!((delayed - 2.0 * reno).abs() <= 2e-6, "{reno} {delayed}");
                // "window / product"
                let share = printed("utilization").1;
                assert!((share - ((1 << 20) as f64 / bdp).min(1.0)).abs() <= 1e-4, "{share}");
            }
        }
    }

    /// L8-bdp, L8-util, L8-linux2, L8-wscale, L8-hol.
    #[test]
    fn lab_8() {
        let path = inputs(10_000_000_000, 50);
        assert_eq!(figure(&path, "bdp_bytes"), 62_500_000.0);
        assert_eq!(figure(&path, "utilization"), 0.0168);
        assert!((figure(&path, "window_on_wire_s") - 0.84e-3).abs() < 0.002e-3);
        assert_eq!(figure(&path, "buffer_bytes"), 120.0 * 1_048_576.0);
        assert_eq!(figure(&path, "window_scale"), 10.0);
        assert!((figure(&path, "hol_share_1bdp") - 0.5).abs() < 1e-9);
        assert_eq!(figure(&path, "buffer_window_bytes"), 8_388_608.0);
    }

    /// H-udp957 and H-tcp941; L8-check's 9.56 Gb/s.
    #[test]
    fn wire_rates() {
        let gigabit = inputs(1_000_000_000, 1);
        assert!((figure(&gigabit, "udp_goodput_bps") / 957e6 - 1.0).abs() < 0.0005);
        assert!((figure(&gigabit, "tcp_goodput_bps") / 941e6 - 1.0).abs() < 0.0006);
        let ten = inputs(10_000_000_000, 20);
        assert!((figure(&ten, "tcp_goodput_tbf_bps") / 9.564e9 - 1.0).abs() < 0.0005);
    }

    /// Every figure has a sentence and a finite value, and no key occurs twice.
    #[test]
    fn every_figure_is_explained() {
        for (rate, rtt) in [(10_000_000_000, 50), (1_000, 1), (1_000_000_000_000, 3_600_000)] {
            let groups = report(&inputs(rate, rtt));
            let figures: Vec<&ReportFigure> = groups.iter().flat_map(|g| &g.figures).collect();
            let keys: std::collections::BTreeSet<&str> = figures.iter().map(|f| f.key).collect();
            assert_eq!(keys.len(), figures.len());
            for figure in figures {
                assert!(figure.sentence.len() > 10, "{figure:?}");
                assert!(figure.value.is_finite() || figure.key == "window_scale", "{figure:?}");
            }
        }
    }
}
