//! The receiving half of a connection: the reorder buffer, and which packets are missing.

use std::collections::{BTreeMap, VecDeque};

use units::{Instant, Time};

use crate::{
    ranges::Ranges,
    udt::{sequence::Numbering, wire::DataHeader},
};

/// A packet's slot in the buffer.
#[derive(Debug)]
enum Slot {
    Missing,
    /// Dropped by the sender, or delivered out of order.
    Skipped,
    Data(DataHeader, Vec<u8>),
}

/// A range of lost packets that was reported.
#[derive(Debug)]
struct Reported {
    last: u64,
    times: u32,
}

/// Received packets that the application has not read.
#[derive(Debug)]
pub(crate) struct ReceiveHalf {
    pub(crate) numbering: Numbering,
    capacity: u64,
    /// From index `base` on; the last one has arrived.
    slots: VecDeque<Slot>,
    base: u64,
    /// Every packet before this index has arrived.
    pub(crate) next: u64,
    /// Bytes of the first packet that the application has read.
    read_bytes: usize,
    lost: Ranges,
    /// Lost ranges by the time of their next report, then by their first index.
    reports: BTreeMap<(Instant, u64), Reported>,
    /// A packet arrived since the last search for complete messages.
    may_have_message: bool,
}

impl ReceiveHalf {
    pub(crate) fn new(initial: u32, capacity: u64) -> Self {
        ReceiveHalf {
            numbering: Numbering::new(initial),
            capacity,
            slots: VecDeque::new(),
            base: 0,
            next: 0,
            read_bytes: 0,
            lost: Ranges::default(),
            reports: BTreeMap::new(),
            may_have_message: false,
        }
    }

    /// The packet after the last that has arrived.
    fn end(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Packets that the buffer has space for. Packets that wait for a missing one do not count as stored, as
    /// in libudt.
    pub(crate) fn space(&self) -> u64 {
        self.capacity - (self.next - self.base)
    }

    /// Stores a packet. Returns the range of packets that it shows to be lost; `Err` if the packet is a
    /// duplicate or does not fit.
    pub(crate) fn insert(&mut self, header: DataHeader, payload: &[u8]) -> Result<Option<(u64, u64)>, ()> {
        let index = self.numbering.index(header.sequence, self.next).ok_or(())?;
        if index < self.next || index - self.base >= self.capacity {
            return Err(());
        }
        let end = self.end();
        let mut gap = None;
        if index > end {
            gap = Some((end, index - 1));
            self.lost.insert(end, index - 1);
        }
        while self.end() <= index {
            self.slots.push_back(Slot::Missing);
        }
        let slot = &mut self.slots[(index - self.base) as usize];
        if !matches!(slot, Slot::Missing) {
            return Err(());
        }
        *slot = Slot::Data(header, payload.to_vec());
        self.lost.remove(index, index);
        self.may_have_message = true;
        self.advance();
        Ok(gap)
    }

    /// The sender dropped packets.
    pub(crate) fn skip(&mut self, first: u32, last: u32) {
        let Some(last) = self.numbering.index(last, self.next) else { return };
        let first = self.numbering.index(first, self.next).unwrap_or(self.next).max(self.next);
        if last < first || last - self.base >= self.capacity || first > self.end() {
            return;
        }
        while self.end() <= last {
            self.slots.push_back(Slot::Missing);
        }
        for index in first..=last {
            let slot = &mut self.slots[(index - self.base) as usize];
            if matches!(slot, Slot::Missing) {
                *slot = Slot::Skipped;
            }
        }
        self.lost.remove(first, last);
        self.advance();
    }

    fn advance(&mut self) {
        self.next = self.lost.first().unwrap_or(self.end());
    }

    /// Records that a range was reported, and when its next report is due.
    pub(crate) fn reported(&mut self, first: u64, last: u64, due: Instant) {
        self.reports.insert((due, first), Reported { last, times: 1 });
    }

    /// When a report is due again.
    pub(crate) fn next_report(&self) -> Instant {
        self.reports.first_key_value().map_or(Instant::NEVER, |((due, _), _)| *due)
    }

    /// The reported ranges that are still missing and due to be reported again, at most `limit`. A range is
    /// due after `interval`, then after twice and three times that, and so on (draft-gg-udt-03 section 3.5).
    pub(crate) fn take_due(&mut self, now: Instant, interval: Time, limit: usize) -> Vec<(u64, u64)> {
        let mut due = Vec::new();
        while due.len() < limit {
            let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= now) else { break };
            let ((_, first), report) = entry.remove_entry();
            // Ranges shrink at their ends or split; each part that is missing is reported.
            let mut index = first;
            while index <= report.last {
                if !self.lost.contains(index) {
                    index += 1;
                    continue;
                }
                let begin = index;
                while index <= report.last && self.lost.contains(index) {
                    index += 1;
                }
                due.push((begin, index - 1));
                let times = report.times.saturating_add(1);
                let again = Reported { last: index - 1, times };
                self.reports.insert((now + interval * u64::from(times), begin), again);
            }
        }
        due
    }

    /// Reads stream data.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < buffer.len() && self.base < self.next {
            if let Some(Slot::Data(_, payload)) = self.slots.front() {
                let rest = &payload[self.read_bytes..];
                let count = rest.len().min(buffer.len() - filled);
                buffer[filled..filled + count].copy_from_slice(&rest[..count]);
                filled += count;
                self.read_bytes += count;
                if self.read_bytes < payload.len() {
                    break;
                }
            }
            self.pop();
        }
        filled
    }

    /// Whether stream data can be read.
    pub(crate) fn has_data(&self) -> bool {
        self.base < self.next
    }

    fn pop(&mut self) {
        self.slots.pop_front();
        self.base += 1;
        self.read_bytes = 0;
    }

    /// Takes a complete message: the next one, or a later one that need not be in order.
    pub(crate) fn take_message(&mut self) -> Option<Vec<u8>> {
        while self.base < self.next && !self.begins_message(0) {
            self.pop();
        }
        if !std::mem::take(&mut self.may_have_message) && self.base == self.next {
            return None;
        }
        let mut begin = 0;
        while begin < self.slots.len() {
            match self.message_end(begin) {
                Some(end) => {
                    self.may_have_message = true;
                    return Some(self.take_slots(begin, end));
                }
                None => begin += 1,
            }
        }
        None
    }

    fn begins_message(&self, at: usize) -> bool {
        matches!(self.slots.get(at), Some(Slot::Data(header, _)) if header.is_first)
    }

    /// The last slot of the complete message that begins here and may be delivered.
    fn message_end(&self, begin: usize) -> Option<usize> {
        let Some(Slot::Data(first, _)) = self.slots.get(begin) else { return None };
        if !first.is_first || (first.in_order && begin > 0) {
            return None;
        }
        for at in begin..self.slots.len() {
            let Some(Slot::Data(header, _)) = self.slots.get(at) else { return None };
            if header.message != first.message {
                return None;
            }
            if header.is_last {
                return Some(at);
            }
        }
        None
    }

    fn take_slots(&mut self, begin: usize, end: usize) -> Vec<u8> {
        let mut message = Vec::new();
        for at in begin..=end {
            if let Slot::Data(_, payload) = std::mem::replace(&mut self.slots[at], Slot::Skipped) {
                message.extend_from_slice(&payload);
            }
        }
        while self.base < self.next && matches!(self.slots.front(), Some(Slot::Skipped)) {
            self.pop();
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sequence: u32, message: u32, flags: &str) -> DataHeader {
        DataHeader {
            sequence,
            is_first: flags.contains('f'),
            is_last: flags.contains('l'),
            in_order: flags.contains('o'),
            message,
            stamp_us: 0,
            destination: 0,
        }
    }

    #[test]
    fn a_gap_is_reported_once_and_again_until_it_is_filled() {
        let mut half = ReceiveHalf::new(0, 100);
        assert_eq!(half.insert(header(0, 1, "fl"), b"a"), Ok(None));
        assert_eq!(half.insert(header(4, 5, "fl"), b"e"), Ok(Some((1, 3))));
        half.reported(1, 3, Instant::from_nanos(10));
        assert_eq!(half.insert(header(2, 3, "fl"), b"c"), Ok(None));
        assert_eq!(half.insert(header(2, 3, "fl"), b"c"), Err(()));
        assert_eq!(half.take_due(Instant::from_nanos(10), Time::from_nanos(5), 9), [(1, 1), (3, 3)]);
        assert_eq!(half.next_report(), Instant::from_nanos(20));
        let mut buffer = [0; 9];
        assert_eq!(half.read(&mut buffer), 1);
        half.insert(header(1, 2, "fl"), b"b").unwrap();
        half.insert(header(3, 4, "fl"), b"d").unwrap();
        assert_eq!(half.read(&mut buffer), 4);
        assert_eq!(&buffer[..4], b"bcde");
        assert!(half.take_due(Instant::from_nanos(99), Time::from_nanos(5), 9).is_empty());
        assert_eq!(half.space(), 100);
    }

    #[test]
    fn unordered_messages_overtake_and_ordered_ones_wait() {
        let mut half = ReceiveHalf::new(0, 100);
        half.insert(header(1, 2, "flo"), b"two").unwrap();
        assert_eq!(half.take_message(), None);
        half.insert(header(2, 3, "f"), b"thr").unwrap();
        half.insert(header(3, 3, "l"), b"ee").unwrap();
        assert_eq!(half.take_message().unwrap(), b"three");
        half.insert(header(0, 1, "flo"), b"one").unwrap();
        assert_eq!(half.take_message().unwrap(), b"one");
        assert_eq!(half.take_message().unwrap(), b"two");
        assert_eq!(half.take_message(), None);
        assert_eq!(half.space(), 100);
    }

    #[test]
    fn dropped_messages_are_skipped() {
        let mut half = ReceiveHalf::new(0, 100);
        half.insert(header(3, 2, "flo"), b"kept").unwrap();
        half.skip(0, 2);
        assert_eq!((half.next, half.lost.len()), (4, 0));
        assert_eq!(half.take_message().unwrap(), b"kept");
    }

    #[test]
    fn packets_beyond_the_buffer_are_rejected() {
        let mut half = ReceiveHalf::new(0, 4);
        assert_eq!(half.insert(header(4, 1, "fl"), b"x"), Err(()));
        half.skip(0, 9);
        assert_eq!(half.next, 0);
        assert_eq!(half.insert(header(3, 1, "fl"), b"x"), Ok(Some((0, 2))));
    }
}
