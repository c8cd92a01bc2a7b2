//! The figures of a transfer that progress displays show.

use std::time::Duration;

use units::BitRate;

use crate::FileReport;

/// The progress of a file that is being transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileProgress {
    /// Size of the file.
    pub bytes: u64,
    /// Bytes that an earlier transfer had stored.
    pub resumed_bytes: u64,
}

impl FileProgress {
    /// The percentage that has been transferred, given the transferred bytes with the resumed ones.
    pub fn percent(&self, transferred: u64) -> f64 {
        100.0 * transferred as f64 / self.bytes.max(1) as f64
    }

    /// The average goodput of this transfer, without the resumed bytes.
    pub fn goodput(&self, transferred: u64, elapsed: Duration) -> BitRate {
        let bits = transferred.saturating_sub(self.resumed_bytes) as f64 * 8.0;
        BitRate((bits / elapsed.as_secs_f64()) as u64)
    }
}

impl FileReport {
    /// The percentage of data packets that were retransmissions; `None` if packets were not counted.
    pub fn retransmitted_percent(&self) -> Option<f64> {
        let (sent, retransmitted) = self.sent_packets.zip(self.retransmitted_packets)?;
        Some(100.0 * retransmitted as f64 / sent.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_bytes_count_for_the_percentage_but_not_for_the_goodput() {
        let progress = FileProgress { bytes: 4_000_000, resumed_bytes: 1_000_000 };
        assert_eq!(progress.percent(3_000_000), 75.0);
        assert_eq!(progress.goodput(3_000_000, Duration::from_secs(2)), BitRate(8_000_000));
        assert_eq!(progress.goodput(500_000, Duration::from_secs(2)), BitRate(0));
        assert_eq!(FileProgress { bytes: 0, resumed_bytes: 0 }.percent(0), 0.0, "an empty file");
    }

    #[test]
    fn retransmissions_are_a_share_of_the_sent_packets() {
        let report = FileReport::new("a", 1, 0, Duration::from_secs(1), String::new());
        assert_eq!(report.retransmitted_percent(), None);
        let counted = FileReport { sent_packets: Some(200), retransmitted_packets: Some(3), ..report };
        assert_eq!(counted.retransmitted_percent(), Some(1.5));
    }
}
