//! The goodput that each cause other than the windows allows.

use schema::Cause;
use units::{BitRate, Bytes, Time, three_digits};

use super::{BusyHost, ControlLaw, GoodputLimit, PathInputs};
use crate::{
    HostLimit, bdp_f64, cubic_utilization, loss_period::LossyPath, responsiveness, sawtooth_utilization,
    window_throughput_bps,
};

/// The limit of the slowest link, which the congestion control's sawtooth does not fully use if its queue is
/// short. A window that cannot overflow the queue has no sawtooth.
pub(super) fn path_limit(
    inputs: &PathInputs,
    wire_limit_bps: Option<f64>,
    window: f64,
    segment: u32,
) -> Option<GoodputLimit> {
    let (wire, rate) = wire_limit_bps.zip(inputs.rate)?;
    let bdp = bdp_f64(rate, inputs.rtt);
    let overflows = |queue: Bytes| bdp > 0.0 && window > bdp + queue.as_f64();
    let used = match (inputs.law, inputs.queue) {
        // 1 % pacing margin and the probing of the minimum round-trip time (tcp_bbr.c); losses reduce
        // goodput.
        (ControlLaw::Bbr, _) => 0.96 * (1.0 - inputs.loss),
        (ControlLaw::Cubic, Some(queue)) if overflows(queue) => cubic_utilization(queue.as_f64() / bdp),
        (ControlLaw::Aimd(rule), Some(queue)) if overflows(queue) => {
            sawtooth_utilization(rule, queue.as_f64() / bdp)
        }
        _ => 1.0,
    };
    let capacity = format!(
        "the slowest link carries {} of payload in addition to the headers",
        BitRate(three_digits(wire))
    );
    let (cc, percent) = (&inputs.cc, used * 100.0);
    let sentence = match inputs.law {
        ControlLaw::Unknown => {
            format!("{capacity}; {cc} has no closed form here, so this is an upper bound")
        }
        ControlLaw::Aimd(rule) if bdp > 0.0 => format!(
            "{capacity}, and {cc} uses {percent:.0} % of it with this queue; recovery from a loss on a full link takes {:.3} s",
            responsiveness(rule, rate, inputs.rtt, segment)
        ),
        _ => format!("{capacity}, and {cc} uses {percent:.0} % of it with this queue"),
    };
    Some(GoodputLimit { cause: Cause::PathRate, bps: wire * used, sentence })
}

/// Growth per round trip in slow start where each ACK acknowledges two segments.
const SLOW_START_GROWTH_BY_ACKS: f64 = 1.5;

/// The limit by the transmit queue of the sender's device.
///
/// If the host's link is the path's slowest, the sawtooth is that of the device's queue. If another link is
/// slower, the queue overflows once, in slow start: ACKs arrive at the rate R of the slowest link,
/// 1.5 R leaves, and the part beyond the link's rate L waits. A window of w segments leaves w (1 - L / 1.5
/// R) of them in the queue. Growth then continues from half of that window by the increment per round trip.
pub(super) fn local_queue_limit(
    inputs: &PathInputs,
    wire_limit_bps: Option<f64>,
    window: f64,
    segment: u32,
) -> Option<GoodputLimit> {
    let device = inputs.device.filter(|device| device.is_congestion)?;
    let (wire, slowest) = wire_limit_bps.zip(inputs.rate)?;
    let ControlLaw::Aimd(rule) = inputs.law else { return None };
    let (bdp, packets) = (bdp_f64(slowest, inputs.rtt), f64::from(device.packets));
    let packet = f64::from(inputs.mtu + inputs.overhead);
    if device.rate <= slowest {
        let queue = packets * packet;
        if bdp <= 0.0 || window <= bdp + queue {
            return None;
        }
        let used = sawtooth_utilization(rule, queue / bdp);
        let sentence = format!(
            "the device queue of {packets:.0} packets overflows at a window of {}, and {} uses {:.0} % of the link then",
            Bytes(three_digits(bdp + queue)),
            inputs.cc,
            used * 100.0
        );
        return Some(GoodputLimit { cause: Cause::LocalQueue, bps: wire * used, sentence });
    }
    let waiting_share = 1.0 - device.rate.as_f64() / (SLOW_START_GROWTH_BY_ACKS * slowest.as_f64());
    let overflow_segs = packets / waiting_share.max(f64::MIN_POSITIVE);
    if waiting_share <= 0.0 || overflow_segs * f64::from(segment) >= window.min(bdp) {
        return None;
    }
    let round_trips = inputs.duration.as_secs_f64() / inputs.rtt.as_secs_f64();
    let first = overflow_segs * (1.0 - rule.decrease);
    let mean_segs = first + rule.increase_segs * round_trips / 2.0;
    let sentence = format!(
        "in slow start the device queue of {packets:.0} packets overflows at a window of {overflow_segs:.0} segments; from \
         {first:.0} on the window grows by {:.1} a round trip: {mean_segs:.0} segments on average",
        rule.increase_segs
    );
    Some(GoodputLimit {
        cause: Cause::LocalQueue,
        bps: window_throughput_bps(mean_segs, segment, inputs.rtt),
        sentence,
    })
}

/// Above this share of the time, the sentence about losses names the timeouts.
const MIN_TIMEOUT_SHARE: f64 = 0.01;

/// The limit by the loss-throughput law of the congestion control; BBR has none at small loss rates. Nothing
/// arrives if every segment is lost.
pub(super) fn loss_limit(inputs: &PathInputs, segment: u32) -> Option<GoodputLimit> {
    if inputs.loss >= 1.0 {
        let sentence = "every segment is lost".into();
        return Some(GoodputLimit { cause: Cause::Loss, bps: 0.0, sentence });
    }
    if inputs.loss <= 0.0 || inputs.rtt == Time::ZERO {
        return None;
    }
    let path = LossyPath { loss: inputs.loss, mss: segment, rtt: inputs.rtt, kernel: inputs.kernel };
    let law = match inputs.law {
        ControlLaw::Cubic => path.cubic(),
        ControlLaw::Aimd(rule) => path.aimd(rule),
        ControlLaw::Bbr | ControlLaw::Unknown => return None,
    };
    let mut sentence = format!(
        "at a loss of {:.3} % {} holds {:.0} segments on average",
        inputs.loss * 100.0,
        inputs.cc,
        law.window_segs
    );
    if law.timeout_share >= MIN_TIMEOUT_SHARE {
        sentence += &format!(" and waits {:.0} % of the time for timeouts", law.timeout_share * 100.0);
    }
    Some(GoodputLimit { cause: Cause::Loss, bps: law.bps, sentence })
}

/// The limit by a host's processor or bus.
pub(super) fn host_limit(host: &BusyHost) -> Option<GoodputLimit> {
    let BusyHost { name, role, cost, stream } = host;
    let (bps, limit) = cost.ceiling_bps(*role, stream)?;
    let packets = bps / 8.0 / f64::from(stream.payload) / f64::from(stream.frames);
    let sentence = match limit {
        HostLimit::Processor => format!(
            "the processor of {name} needs {:.2} us for {} and its ACKs and interrupts: {} of payload",
            cost.seconds_per_packet(*role, stream, packets) * 1e6,
            match stream.frames {
                1 => format!("a packet of {} B", stream.frame_bytes),
                frames => format!("a super-packet of {frames} frames of {} B", stream.frame_bytes),
            },
            BitRate(three_digits(bps))
        ),
        HostLimit::Bus => format!("the bus of {name} carries {} of payload", BitRate(three_digits(bps))),
    };
    Some(GoodputLimit { cause: Cause::HostCpu, bps, sentence })
}

pub(super) fn application_limits(inputs: &PathInputs) -> Vec<GoodputLimit> {
    let limit = |rate: Option<BitRate>, cause, what: &str| {
        rate.map(|rate| GoodputLimit { cause, bps: rate.as_f64(), sentence: format!("{what} at {rate}") })
    };
    [
        limit(inputs.read_rate, Cause::Application, "the receiving application reads"),
        limit(inputs.write_rate, Cause::Application, "the sending application writes"),
        limit(inputs.pacing, Cause::Pacing, "the sender paces"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
