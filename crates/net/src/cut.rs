//! Trains cut where neighbouring segments fare differently, and what their segments measure.

use units::Time;

use crate::{Packet, Shape, Train, fixed::Fixed};

/// So many neighbouring segments with one fate.
pub(crate) type Runs<F> = Vec<(F, u32)>;

/// Asks for the fate of each segment in turn.
pub(crate) fn runs<F: PartialEq>(segments: u32, mut fate: impl FnMut(u32) -> F) -> Runs<F> {
    let mut runs: Runs<F> = Vec::with_capacity(1);
    for segment in 0..segments {
        let fate = fate(segment);
        match runs.last_mut() {
            Some((last, count)) if *last == fate => *count += 1,
            _ => runs.push((fate, 1)),
        }
    }
    runs
}

/// Cuts `packet` into `runs`, which cover it; `each` gets the fate, the place of its first segment, and the part.
pub(crate) fn cut<P: Packet, F>(packet: P, runs: Runs<F>, mut each: impl FnMut(F, u32, P)) {
    let mut from = 0;
    let mut rest = Some(packet);
    for (fate, count) in runs {
        let Some(mut part) = rest.take() else { return };
        if count < part.segments() {
            rest = Some(part.split_off(count));
        }
        each(fate, from, part);
        from += count;
    }
}

/// Bytes of IP of one segment.
pub(crate) fn segment_bytes<P: Packet>(packet: &P, segment: u32) -> u32 {
    if segment + 1 == packet.segments() { packet.last_segment_bytes() } else { packet.segment_bytes() }
}

/// Bytes of the whole packet on a wire that adds `overhead` to each segment.
#[inline]
pub(crate) fn wire_bytes<P: Packet>(packet: &P, overhead: u32) -> u64 {
    packet.shape().wire_bytes(overhead)
}

/// The arrival of a train at a queue that is served faster than it came: no earlier than it can be sent in one
/// piece that ends with its last segment. `per_byte` is the time that the queue's server takes for a byte.
#[inline]
pub(crate) fn squeezed(arrival: Train, shape: Shape, per_byte: Option<Fixed>, overhead: u32) -> Train {
    let Some(byte) = per_byte.filter(|_| arrival.first < arrival.last) else { return arrival };
    let segment = byte * u64::from(shape.segment_bytes + overhead);
    let before = segment * u64::from(shape.segments - 1);
    let first = Fixed::from(arrival.last).saturating_sub(before).ceil();
    Train { first: arrival.first.max(first.min(arrival.last)), last: arrival.last }
}

/// The time between the arrivals of two neighbouring segments.
pub(crate) fn spacing<P: Packet>(arrival: Train, packet: &P) -> Fixed {
    match packet.segments() {
        1 => Fixed::ZERO,
        n => Fixed::from(Time(arrival.last.0.saturating_sub(arrival.first.0))).div(n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_packet::TestPacket;

    #[test]
    fn a_train_is_cut_where_fates_change() {
        let train = TestPacket { first: 0, segments: 6, bytes: 100, last_bytes: 7 };
        let fates = runs(6, |segment| segment == 2 || segment == 3);
        assert_eq!(fates, [(false, 2), (true, 2), (false, 2)]);
        let mut parts = Vec::new();
        cut(train, fates, |fate, from, part| {
            parts.push((fate, from, part.first, part.segments, part.last_bytes))
        });
        assert_eq!(parts, [(false, 0, 0, 2, 100), (true, 2, 2, 2, 100), (false, 4, 4, 2, 7)]);
    }
}
