//! The summary of a real-time stream's play-out.

use bulk::stream::PlayoutCounts;
use schema::StreamSummary;
use units::BitRate;

/// Whether a stream of this rate was sustainable, if this share of its packets (0 to 1) may miss its time.
/// `unused_bps` is the rate that the path has left for a sustainable stream; `None` if it is unknown.
pub fn stream_summary(
    playout: &PlayoutCounts,
    rate: BitRate,
    tolerate_loss: f64,
    unused_bps: impl FnOnce() -> Option<f64>,
) -> StreamSummary {
    let [gaps_of_1, gaps_of_2_to_10, gaps_of_11_to_100, gaps_over_100] = playout.gaps;
    let in_time_share = if playout.due > 0 { playout.in_time as f64 / playout.due as f64 } else { 0.0 };
    let is_sustainable = playout.due > 0 && in_time_share >= 1.0 - tolerate_loss;
    let sustainable_up_to_bps = match is_sustainable {
        true => unused_bps().map(|unused| rate.as_f64() + unused),
        false => Some(rate.as_f64() * in_time_share),
    };
    StreamSummary {
        due_packets: playout.due,
        in_time_share,
        late_packets: playout.late,
        gaps_of_1,
        gaps_of_2_to_10,
        gaps_of_11_to_100,
        gaps_over_100,
        longest_gap_packets: playout.longest_gap,
        is_sustainable,
        sustainable_up_to_bps,
    }
}
