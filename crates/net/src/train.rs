//! Splits trains where adjacent segments have different fates, and computes the sizes and times of their
//! segments.

use crate::{Packet, PacketShape, TrainTimes, fixed::Fixed};

/// Numbers of adjacent segments with the same fate.
pub(crate) type Runs<F> = Vec<(F, u32)>;

/// Calls `fate` for each segment in turn and groups equal results.
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

/// Splits `packet` into `runs`, which cover it. `each` receives the fate, the index of the part's first
/// segment, and the part.
pub(crate) fn split<P: Packet, F>(packet: P, runs: Runs<F>, mut each: impl FnMut(F, u32, P)) {
    let mut from = 0;
    let mut remaining = Some(packet);
    for (fate, count) in runs {
        let Some(mut part) = remaining.take() else { return };
        if count < part.segments() {
            remaining = Some(part.split_off(count));
        }
        each(fate, from, part);
        from += count;
    }
}

/// IP bytes of one segment.
pub(crate) fn segment_bytes<P: Packet>(packet: &P, segment: u32) -> u32 {
    if segment + 1 == packet.segments() { packet.last_segment_bytes() } else { packet.segment_bytes() }
}

/// Bytes of the whole packet on a wire that adds `overhead` to each segment.
#[inline]
pub(crate) fn wire_bytes<P: Packet>(packet: &P, overhead: u32) -> u64 {
    packet.shape().wire_bytes(overhead)
}

/// Delays the first segment of a train that arrives at a faster queue: the train then occupies the server
/// without gaps and ends with its last segment. `per_byte` is the time that the queue's server takes for a
/// byte.
#[inline]
pub(crate) fn close_gaps(
    arrival: TrainTimes,
    shape: PacketShape,
    per_byte: Option<Fixed>,
    overhead: u32,
) -> TrainTimes {
    let Some(byte) = per_byte.filter(|_| arrival.first < arrival.last) else { return arrival };
    let segment = byte * u64::from(shape.segment_bytes + overhead);
    let before = segment * u64::from(shape.segments - 1);
    let first = Fixed::from(arrival.last).saturating_sub(before).ceil();
    TrainTimes { first: arrival.first.max(first.min(arrival.last)), last: arrival.last }
}

/// The time between the arrivals of two adjacent segments.
pub(crate) fn spacing<P: Packet>(arrival: TrainTimes, packet: &P) -> Fixed {
    match packet.segments() {
        1 => Fixed::ZERO,
        n => Fixed::from(arrival.last.saturating_since(arrival.first)).div(n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_packet::TestPacket;

    #[test]
    fn a_train_is_split_between_segments_of_different_fates() {
        let train = TestPacket { first: 0, segments: 6, bytes: 100, last_bytes: 7 };
        let fates = runs(6, |segment| segment == 2 || segment == 3);
        assert_eq!(fates, [(false, 2), (true, 2), (false, 2)]);
        let mut parts = Vec::new();
        split(train, fates, |fate, from, part| {
            parts.push((fate, from, part.first, part.segments, part.last_bytes))
        });
        assert_eq!(parts, [(false, 0, 0, 2, 100), (true, 2, 2, 2, 100), (false, 4, 4, 2, 7)]);
    }
}
