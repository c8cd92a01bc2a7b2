//! Predictions for Lab 8 and for short, lossy and unusual paths.

use super::*;

/// Lab 8 with buffers of at most `largest` bytes.
fn lab8(kernel: KernelVersion, largest: u64) -> PathInputs {
    let buffer = SocketBuffer::Tuned { largest: Bytes(largest) };
    PathInputs {
        rate: Some(BitRate(10_000_000_000)),
        overhead: 14,
        queue: Some(Bytes(25_000_000)),
        device: None,
        rtt: Time::from_millis(20),
        mtu: 1500,
        mss: None,
        ip: IpVersion::V4,
        loss: 0.0,
        kernel,
        receiver_kernel: kernel,
        cc: "cubic".into(),
        law: ControlLaw::Cubic,
        window_scaling: true,
        receive_buffer: buffer,
        send_buffer: buffer,
        read_rate: None,
        write_rate: None,
        pacing: None,
        size: None,
        duration: Time::from_secs(20),
        hosts: Vec::new(),
    }
}

const OLD: KernelVersion = KernelVersion { major: 6, minor: 1, patch: 0 };
const NEW: KernelVersion = KernelVersion { major: 6, minor: 18, patch: 0 };

#[test]
fn lab_8_on_an_older_kernel_is_limited_by_half_the_buffer() {
    let prediction = predict(&lab8(OLD, 16_777_216));
    assert!((prediction.steady_goodput_bps / 3.355e9 - 1.0).abs() < 0.001, "{prediction:?}");
    // A stock 6.1 measured 3.31 Gb/s over 20 s (L8-check).
    assert!((prediction.goodput_bps / 3.31e9 - 1.0).abs() < 0.01, "{prediction:?}");
    assert_eq!(prediction.verdict, Cause::ReceiveWindow);
}

#[test]
fn lab_8_on_this_kernel_is_limited_by_the_send_buffer() {
    let prediction = predict(&lab8(NEW, 16_777_216));
    // Linux 6.18 gave 4.1 to 4.46 Gb/s in the lab.
    assert!((prediction.steady_goodput_bps / 4.4e9 - 1.0).abs() < 0.12, "{prediction:?}");
    assert_eq!(prediction.verdict, Cause::SendBuffer);
    assert_eq!(prediction.limits[1].cause, Cause::ReceiveWindow);
    assert_eq!(prediction.verdict_also, Some(Cause::ReceiveWindow), "by 10 % larger");
}

#[test]
fn the_receivers_kernel_decides_the_receive_window() {
    let window = |kernel, receiver_kernel| {
        predict(&PathInputs { receiver_kernel, ..lab8(kernel, 16_777_216) }).receive_window_bytes
    };
    assert_eq!(window(OLD, NEW), window(NEW, NEW));
    assert_eq!(window(NEW, OLD), window(OLD, OLD));
    assert!(window(OLD, NEW) > 1.2 * window(NEW, OLD));
}

#[test]
fn two_nearly_equal_windows_are_both_limits() {
    let sent = |send: u64| {
        let send_buffer = SocketBuffer::Tuned { largest: Bytes(send) };
        let prediction = predict(&PathInputs { send_buffer, ..lab8(NEW, 16_777_216) });
        (prediction.verdict, prediction.verdict_also)
    };
    let (receive, send) = (Cause::ReceiveWindow, Cause::SendBuffer);
    assert_eq!(sent(10_000_000), (send, None));
    assert_eq!(sent(40_000_000), (receive, None));
    let both: Vec<_> = (10..40).map(|mb| sent(mb * 1_000_000)).filter(|(_, also)| also.is_some()).collect();
    assert!(both.contains(&(send, Some(receive))) && both.contains(&(receive, Some(send))), "{both:?}");
}

#[test]
fn lab_8_tuned_fills_the_path() {
    for kernel in [OLD, NEW] {
        let prediction = predict(&lab8(kernel, 52_428_800));
        assert!((prediction.steady_goodput_bps / 9.564e9 - 1.0).abs() < 0.001, "{prediction:?}");
        assert_eq!(prediction.verdict, Cause::PathRate);
        assert!(prediction.goodput_bps < prediction.steady_goodput_bps);
    }
    let unscaled = predict(&PathInputs { window_scaling: false, ..lab8(NEW, 52_428_800) });
    assert_eq!((unscaled.verdict, unscaled.receive_window_bytes), (Cause::ReceiveWindow, 65_535.0));
    let jumbo = predict(&PathInputs { mtu: 9000, ..lab8(NEW, 52_428_800) });
    assert!((jumbo.steady_goodput_bps / 9.927e9 - 1.0).abs() < 0.001, "{jumbo:?}");
}

#[test]
fn the_senders_own_device_queue_limits_a_stack_without_small_queues() {
    let gigabit = BitRate(1_000_000_000);
    let device = |packets, is_congestion| Some(DeviceQueue { packets, rate: gigabit, is_congestion });
    let reno = |device, rate: u64| PathInputs {
        rate: Some(BitRate(rate)),
        rtt: Time::from_millis(100),
        queue: None,
        device,
        law: ControlLaw::Aimd(Aimd::RENO_DELAYED_ACK),
        ..lab8(OLD, 64 << 20)
    };
    // The host's link is the slowest: a queue of 100 x 1514 B beside 12.5 MB, a sawtooth from half to
    // all of both.
    let own = predict(&reno(device(100, true), 1_000_000_000));
    assert_eq!(own.verdict, Cause::LocalQueue);
    let used = own.steady_goodput_bps / own.wire_limit_bps.unwrap();
    assert!((0.74..0.78).contains(&used), "{used}");
    // Both remedies work, and a queue of one product of rate and delay holds the sawtooth.
    for remedy in [device(100, false), device(8257, true), None] {
        let remedied = predict(&reno(remedy, 1_000_000_000));
        assert!(remedied.steady_goodput_bps > 0.99 * remedied.wire_limit_bps.unwrap(), "{remedy:?}");
    }
    // The next link has 800 Mb/s: in slow start the share 1 - 1 / 1.2 of 600 segments, which is 100, waits in
    // the queue. The window restarts at 300 and grows by 0.5 in each of 200 round trips.
    let slower = predict(&reno(device(100, true), 800_000_000));
    assert_eq!(slower.verdict, Cause::LocalQueue);
    let segs = slower.steady_goodput_bps / 8.0 * 0.1 / f64::from(slower.mss_bytes);
    assert!((segs - 350.0).abs() < 0.5, "{segs}");
    // At half the rate slow start does not exceed the host's link.
    assert_eq!(predict(&reno(device(100, true), 500_000_000)).verdict, Cause::PathRate);
}

#[test]
fn losses_applications_and_pacing_are_separate_limits() {
    let tuned = || lab8(NEW, 52_428_800);
    let verdict = |inputs: &PathInputs| predict(inputs).verdict;
    assert_eq!(verdict(&PathInputs { loss: 0.001, ..tuned() }), Cause::Loss);
    assert_eq!(verdict(&PathInputs { loss: 0.001, law: ControlLaw::Bbr, ..tuned() }), Cause::PathRate);
    let slow = Some(BitRate(1_000_000_000));
    assert_eq!(verdict(&PathInputs { read_rate: slow, ..tuned() }), Cause::Application);
    assert_eq!(verdict(&PathInputs { pacing: slow, ..tuned() }), Cause::Pacing);
}

/// CUBIC at 10 ms: the simulator gives 1.96 Mb/s, the square-root law 4.49.
#[test]
fn timeouts_reduce_goodput_at_high_loss() {
    let lossy = |loss| predict(&PathInputs { loss, rtt: Time::from_millis(10), ..lab8(NEW, 52_428_800) });
    let high = lossy(0.1);
    assert!((1.5e6..2.5e6).contains(&high.steady_goodput_bps), "{high:?}");
    let sentence =
        "at a loss of 10.000 % cubic holds 4 segments on average and waits 17 % of the time for timeouts";
    assert_eq!((high.verdict, high.limits[0].sentence.as_str()), (Cause::Loss, sentence));
    assert!(!lossy(1e-3).limits[0].sentence.contains("timeouts"));
}

#[test]
fn nothing_arrives_if_every_segment_is_lost() {
    for law in [ControlLaw::Cubic, ControlLaw::Aimd(Aimd::RENO), ControlLaw::Bbr, ControlLaw::Unknown] {
        for (rtt, size) in [(Time::ZERO, None), (Time::from_millis(20), Some(Bytes(1000)))] {
            let prediction = predict(&PathInputs { loss: 1.0, law, rtt, size, ..lab8(NEW, 52_428_800) });
            let figures = (prediction.goodput_bps, prediction.steady_goodput_bps, prediction.bytes);
            assert_eq!((figures, prediction.verdict), ((0.0, 0.0, 0.0), Cause::Loss), "{law:?}");
        }
    }
}

#[test]
fn grid_dt_recovers_faster_and_an_unknown_law_is_reported() {
    let with = |law| predict(&PathInputs { law, cc: "it".into(), loss: 1e-6, ..lab8(NEW, 52_428_800) });
    let loss = |p: &Prediction| p.limits.iter().find(|l| l.cause == Cause::Loss).map(|l| l.bps);
    let (one, four) = (Aimd::RENO, Aimd { increase_segs: 4.0, ..Aimd::RENO });
    let (reno, grid, none) =
        (with(ControlLaw::Aimd(one)), with(ControlLaw::Aimd(four)), with(ControlLaw::Unknown));
    assert!((loss(&grid).unwrap() / loss(&reno).unwrap() - 2.0).abs() < 2e-3, "{grid:?}");
    assert_eq!(loss(&none), None);
    let states = |p: &Prediction, text: &str| p.limits.iter().any(|l| l.sentence.contains(text));
    // C RTT^2 / (2 A MSS): 10 Gb/s, 20 ms, 1448 B.
    assert!(
        states(&reno, "full link takes 172.652 s") && states(&grid, "full link takes 43.163 s"),
        "{reno:?} {grid:?}"
    );
    assert!(states(&none, "no closed form"));
}

#[test]
fn a_short_transfer_ends_early() {
    let prediction = predict(&PathInputs { size: Some(Bytes(1_000_000)), ..lab8(NEW, 52_428_800) });
    assert_eq!(prediction.bytes, 1_000_000.0);
    assert_eq!(prediction.verdict, Cause::SlowStart);
    // log2(1,000,000 / 14,480 + 1) = 6.13 round trips of doubling, and half of one; the handshake does not
    // count.
    let seconds = 8e6 / prediction.goodput_bps;
    assert!((seconds / (6.63 * 0.02) - 1.0).abs() < 0.001, "{prediction:?}");
}

#[test]
fn a_flow_that_ends_in_its_handshake_has_no_goodput() {
    for duration in [Time::ZERO, Time::from_millis(20), Time::from_millis(25)] {
        let prediction = predict(&PathInputs { duration, ..lab8(NEW, 52_428_800) });
        assert_eq!((prediction.goodput_bps, prediction.bytes), (0.0, 0.0), "{duration:?}");
    }
}

#[test]
fn zero_rate_and_zero_delay_give_valid_results() {
    let inputs = PathInputs { rate: None, rtt: Time::ZERO, ..lab8(NEW, 52_428_800) };
    let prediction = predict(&inputs);
    assert!(prediction.limits.is_empty());
    assert_eq!(prediction.verdict, Cause::HostCpu);
}

/// The bursts of a buffer that is far larger than the path's product of rate and delay keep the link busy.
#[test]
fn a_slow_link_of_a_short_path_is_full() {
    for (mbps, rtt_us) in [(1, 1000), (10, 200), (100, 20)] {
        let (rate, rtt) = (Some(BitRate(mbps * 1_000_000)), Time::from_micros(rtt_us));
        let prediction = predict(&PathInputs { rate, rtt, ..lab8(NEW, 4 << 20) });
        assert_eq!(prediction.verdict, Cause::PathRate, "{mbps}: {prediction:?}");
        assert!(prediction.steady_goodput_bps > 0.95e6 * mbps as f64, "{mbps}: {prediction:?}");
    }
}

#[test]
fn a_window_that_cannot_fill_the_queue_has_no_sawtooth() {
    let small = PathInputs {
        law: ControlLaw::Aimd(Aimd::RENO),
        queue: Some(Bytes(2_500_000)),
        ..lab8(OLD, 45_000_000)
    };
    let prediction = predict(&small);
    assert_eq!(prediction.verdict, Cause::ReceiveWindow);
    assert!((prediction.steady_goodput_bps / 9.0e9 - 1.0).abs() < 0.001, "{prediction:?}");
}
