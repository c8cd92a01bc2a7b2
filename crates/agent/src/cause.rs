//! The causes that limit a pair of points, and their descriptions.

/// The cause of a pair whose tests get no result.
pub(crate) const NO_RESULT: &str = "no_result";

/// Whether TCP gets the rate of the path.
pub(crate) fn is_good(cause: &str) -> bool {
    matches!(cause, "path_rate" | "healthy")
}

/// A cause in words, as in `receive buffer of d`. The names are those of [`schema::Cause`] and of
/// [`diagnosis::Kind`].
pub(crate) fn in_words(cause: &str, from: &str, to: &str) -> String {
    match cause {
        NO_RESULT => "no result".into(),
        "path_rate" | "healthy" => "rate of the path".into(),
        "receive_window" | "receive_buffer" => format!("receive buffer of {to}"),
        "send_buffer" => format!("send buffer of {from}"),
        "loss" => "lost packets".into(),
        "ecn_marks" => "congestion marks (ECN)".into(),
        "local_queue" => format!("transmit queue of {from}"),
        "pacing" => format!("pacing at {from}"),
        "host_cpu" => format!("processor of {from} or {to}"),
        "receiver_cpu" => format!("processor of {to}"),
        "sender_cpu" => format!("processor of {from}"),
        "mtu_black_hole" => "MTU black hole".into(),
        "window_scaling" => "window scaling disabled".into(),
        "sack_off" => "selective acknowledgement disabled".into(),
        "small_mss" => "small segments (MSS)".into(),
        "cached_ssthresh" => format!("cached slow-start threshold of {from}"),
        "short_queue" => "short queue of the path".into(),
        "policer" => "policer of the path".into(),
        "slow_hop" => "slow link of the path".into(),
        "path_changed" => "changed rate of the path".into(),
        "competing_traffic" => "other traffic on the path".into(),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_in_a_record_has_a_description() {
        for cause in schema::Cause::ALL {
            let words = in_words(cause.name(), "a", "b");
            assert!(!words.is_empty() && !words.contains('_'), "{words}");
        }
        assert_eq!(in_words("receive_window", "a", "d"), "receive buffer of d");
        assert_eq!(in_words("receive_buffer", "a", "d"), in_words("receive_window", "a", "d"));
    }
}
