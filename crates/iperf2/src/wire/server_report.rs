//! The report that a server sends when a UDP test has ended, after a copy of the last datagram's header.

use std::time::Duration;

use super::{put, word};

/// Length of the report: the base of 40 bytes and extensions of 60 and 12.
pub const REPORT_BYTES: usize = BASE_BYTES + TIMES_BYTES + HIGH_WORDS_BYTES;
const BASE_BYTES: usize = 40;
/// Transit times, which this crate neither writes nor reads.
const TIMES_BYTES: usize = 60;
const HIGH_WORDS_BYTES: usize = 12;
/// Maximum of a field of microseconds within a second.
const MAX_MICROS: u64 = 999_999;
const HAS_BASE: u32 = 0x8000_0000;
const HAS_HIGH_WORDS: u32 = 0x0800_0000;

/// The counts of a receiver of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Payload received.
    pub bytes: u64,
    /// Duration of the test at the receiver, in steps of a microsecond.
    pub duration: Duration,
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams that arrived after a later one.
    pub out_of_order: u64,
    /// Datagrams received or lost.
    pub datagrams: u64,
    /// RFC 3550 jitter, in steps of a microsecond.
    pub jitter: Duration,
}

impl ServerReport {
    /// The report as bytes.
    pub fn encode(&self) -> [u8; REPORT_BYTES] {
        let mut bytes = [0; REPORT_BYTES];
        let high = BASE_BYTES + TIMES_BYTES;
        put(&mut bytes, 0, HAS_BASE | HAS_HIGH_WORDS);
        put(&mut bytes, 4, (self.bytes >> 32) as u32);
        put(&mut bytes, 8, self.bytes as u32);
        put(&mut bytes, 12, self.duration.as_secs() as u32);
        put(&mut bytes, 16, self.duration.subsec_micros());
        for (index, count) in [self.lost, self.out_of_order, self.datagrams].into_iter().enumerate() {
            put(&mut bytes, 20 + 4 * index, count as u32);
            put(&mut bytes, high + 4 * index, (count >> 32) as u32);
        }
        put(&mut bytes, 32, self.jitter.as_secs() as u32);
        put(&mut bytes, 36, self.jitter.subsec_micros());
        bytes
    }

    /// Reads a report; `None` if it has none, as an acknowledgement without statistics.
    pub fn decode(bytes: &[u8]) -> Option<ServerReport> {
        let at = |at: usize| word(bytes, at).map(u64::from);
        let flags = word(bytes, 0)?;
        if flags & HAS_BASE == 0 {
            return None;
        }
        let high = BASE_BYTES + TIMES_BYTES;
        let count = |index: usize| {
            let high = (flags & HAS_HIGH_WORDS != 0).then(|| at(high + 4 * index)).flatten();
            Some(at(20 + 4 * index)? | high.unwrap_or(0) << 32)
        };
        let time = |seconds: usize| {
            let micros = at(seconds + 4)?.min(MAX_MICROS);
            Some(Duration::from_secs(at(seconds)?) + Duration::from_micros(micros))
        };
        Some(ServerReport {
            bytes: at(4)? << 32 | at(8)?,
            duration: time(12)?,
            lost: count(0)?,
            out_of_order: count(1)?,
            datagrams: count(2)?,
            jitter: time(32)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reports_round_trip(
            bytes: u64, micros in 0u64..1 << 40, lost: u64, out_of_order: u64, datagrams: u64, jitter in 0u64..1 << 30,
        ) {
            let report = ServerReport {
                bytes, lost, out_of_order, datagrams,
                duration: Duration::from_micros(micros),
                jitter: Duration::from_micros(jitter),
            };
            prop_assert_eq!(ServerReport::decode(&report.encode()), Some(report));
        }
    }

    #[test]
    fn reports_of_old_servers_have_no_high_words() {
        let mut old = ServerReport { lost: 7, datagrams: 9, ..ServerReport::default() }.encode();
        put(&mut old, 0, HAS_BASE);
        assert_eq!(
            ServerReport::decode(&old[..BASE_BYTES]).map(|report| (report.lost, report.datagrams)),
            Some((7, 9))
        );
        assert_eq!(ServerReport::decode(&old[..BASE_BYTES - 1]), None);
        assert_eq!(ServerReport::decode(&[0; REPORT_BYTES]), None);
    }
}
