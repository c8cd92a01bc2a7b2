//! The instruments of web100 (RFC 4898, the TCP Extended Statistics MIB), and the value that Linux has for
//! each.
//!
//! One table gives each instrument's source, and how close its value is to web100's. Instruments without any
//! source on Linux are blank, with the reason.

use crate::{SocketSample, TcpInfo, TrackedConnection};

/// `snd_cwnd_clamp` of a connection without a limit (`tcp_init_sock`), segments.
const UNLIMITED_CWND: u32 = !0;

/// How close a value is to web100's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fidelity {
    /// The same quantity.
    Same,
    /// Nearly the same quantity; the source text names the difference.
    Near,
    /// Counted from samples, so changes between two samples are missing. Exact where every event is
    /// traced.
    Counted,
    /// Available only where each round trip is traced.
    Traced,
    /// Linux does not report it.
    Blank,
}

impl Fidelity {
    /// The word in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::Same => "same",
            Fidelity::Near => "near",
            Fidelity::Counted => "counted",
            Fidelity::Traced => "traced",
            Fidelity::Blank => "blank",
        }
    }
}

/// An instrument of web100.
#[derive(Debug, Clone, Copy)]
pub struct Instrument {
    /// Name in web100.
    pub name: &'static str,
    /// Unit of the value: empty for counts.
    pub unit: &'static str,
    /// How close the value is to web100's definition.
    pub fidelity: Fidelity,
    /// The source of the value; for a blank, the reason why there is none.
    pub source: &'static str,
    read: fn(&TrackedConnection) -> Option<u64>,
}

impl Instrument {
    /// The value for a connection; `None` if the kernel is too old, or nothing was measured yet.
    pub fn value(&self, connection: &TrackedConnection) -> Option<u64> {
        (self.read)(connection)
    }
}

fn info(connection: &TrackedConnection) -> &TcpInfo {
    &connection.sample.info
}

fn option_bit(sample: &SocketSample, bit: u8) -> Option<u64> {
    sample.info.options().map(|options| u64::from(options >> bit & 1))
}

/// Time with nothing to send since the connection was first seen, us.
fn app_idle_us(connection: &TrackedConnection) -> Option<u64> {
    let observed_us = connection.sampled_ns.saturating_sub(connection.first_seen_ns) / 1000;
    // The kernel counts since the connection began.
    let busy_us = info(connection).busy_time_us()?.saturating_sub(connection.counters.busy_before_us);
    Some(observed_us.saturating_sub(busy_us))
}

/// Declares the table, one instrument per line.
macro_rules! instruments {
    ($($name:ident [$unit:literal] $fidelity:ident $source:literal $read:expr;)*) => {
        /// All instruments.
        pub const INSTRUMENTS: &[Instrument] = &[$(Instrument {
            name: stringify!($name),
            unit: $unit,
            fidelity: Fidelity::$fidelity,
            source: $source,
            read: $read,
        },)*];
    };
}

instruments! {
    SegsOut ["segs"] Same "tcp_info segs_out" |c| info(c).segs_out().map(u64::from);
    SegsIn ["segs"] Same "tcp_info segs_in" |c| info(c).segs_in().map(u64::from);
    DataSegsOut ["segs"] Same "tcp_info data_segs_out" |c| info(c).data_segs_out().map(u64::from);
    DataSegsIn ["segs"] Same "tcp_info data_segs_in" |c| info(c).data_segs_in().map(u64::from);
    HCDataOctetsOut ["bytes"] Same "tcp_info bytes_sent" |c| info(c).bytes_sent();
    OctetsRetrans ["bytes"] Same "tcp_info bytes_retrans" |c| info(c).bytes_retrans();
    SegsRetrans ["segs"] Same "tcp_info total_retrans" |c| info(c).total_retrans().map(u64::from);
    HCThruOctetsAcked ["bytes"] Near "tcp_info bytes_acked; an acknowledged SYN counts as one byte"
        |c| info(c).bytes_acked();
    HCThruOctetsReceived ["bytes"] Same "tcp_info bytes_received" |c| info(c).bytes_received();
    CurMSS ["bytes"] Same "tcp_info snd_mss" |c| info(c).snd_mss().map(u64::from);
    PipeSize ["bytes"] Near "tcp_info (unacked - sacked - lost + retrans) x snd_mss" |c| {
        Some(u64::from(info(c).in_flight()?) * u64::from(info(c).snd_mss()?))
    };
    MaxPipeSize ["bytes"] Counted "the largest PipeSize since the connection was first seen" |c| {
        Some(u64::from(c.counters.in_flight.range?.1) * u64::from(info(c).snd_mss()?))
    };
    SmoothedRTT ["us"] Same "tcp_info rtt" |c| info(c).rtt_us().filter(|rtt| *rtt > 0).map(u64::from);
    RTTVar ["us"] Same "tcp_info rttvar" |c| info(c).rttvar_us().map(u64::from);
    SampleRTT ["us"] Traced "sock_ops BPF_SOCK_OPS_RTT_CB, the latest"
        |c| c.counters.last_round_trip_us.map(u64::from);
    MinRTT ["us"] Near "tcp_info min_rtt: over the last net.ipv4.tcp_min_rtt_wlen seconds (default 300)" |c| {
        info(c).min_rtt_us().filter(|rtt| *rtt < u32::MAX).map(u64::from)
    };
    MaxRTT ["us"] Traced "the largest SampleRTT since the connection was first seen" |c| {
        c.counters.round_trip_us.range.map(|(_, max)| u64::from(max))
    };
    SumRTT ["us"] Traced "the sum of SampleRTT since the connection was first seen" |c| {
        (c.counters.round_trips > 0).then_some(c.counters.round_trips_sum_us)
    };
    CountRTT [""] Traced "number of SampleRTT since the connection was first seen" |c| {
        (c.counters.round_trips > 0).then_some(c.counters.round_trips)
    };
    CurRTO ["us"] Same "tcp_info rto" |c| info(c).rto_us().map(u64::from);
    MinRTO ["us"] Counted "the smallest CurRTO of all samples"
        |c| c.counters.rto_us.range.map(|(min, _)| u64::from(min));
    MaxRTO ["us"] Counted "the largest CurRTO of all samples"
        |c| c.counters.rto_us.range.map(|(_, max)| u64::from(max));
    CurCwnd ["segs"] Near "tcp_info snd_cwnd: segments instead of bytes"
        |c| info(c).snd_cwnd().map(u64::from);
    CurSsthresh ["segs"] Near "tcp_info snd_ssthresh: segments; blank before the first loss" |c| {
        info(c).snd_ssthresh().filter(|s| *s < crate::row::INFINITE_SSTHRESH).map(u64::from)
    };
    MaxSsCwnd ["segs"] Counted "the largest CurCwnd in slow start"
        |c| c.counters.slow_start_cwnd.range.map(|(_, max)| u64::from(max));
    MaxCaCwnd ["segs"] Counted "the largest CurCwnd in congestion avoidance" |c| {
        c.counters.avoidance_cwnd.range.map(|(_, max)| u64::from(max))
    };
    MinSsthresh ["segs"] Counted "the smallest CurSsthresh"
        |c| c.counters.ssthresh.range.map(|(min, _)| u64::from(min));
    MaxSsthresh ["segs"] Counted "the largest CurSsthresh"
        |c| c.counters.ssthresh.range.map(|(_, max)| u64::from(max));
    SlowStart [""] Counted "increases of CurCwnd in slow start; those between two samples count as one (exact with \
        --per-ack)"
        |c| Some(c.counters.slow_start_growths);
    CongAvoid [""] Counted "increases of CurCwnd in congestion avoidance, as SlowStart"
        |c| Some(c.counters.avoidance_growths);
    CongSignals [""] Counted "times that the congestion state became CWR, recovery or loss" |c| {
        Some(c.counters.reductions + c.counters.recoveries + c.counters.losses)
    };
    Timeouts [""] Same "tcp_info total_rto (Linux 6.7)" |c| info(c).total_rto().map(u64::from);
    CurTimeoutCount [""] Same "tcp_info retransmits" |c| info(c).retransmits().map(u64::from);
    FastRetran [""] Counted "times that the congestion state became recovery" |c| Some(c.counters.recoveries);
    CurRwinRcvd ["bytes"] Same "tcp_info snd_wnd" |c| info(c).snd_wnd().map(u64::from);
    MaxRwinRcvd ["bytes"] Counted "the largest CurRwinRcvd"
        |c| c.counters.snd_wnd.range.map(|(_, max)| u64::from(max));
    ZeroRwinRcvd [""] Counted "times that the peer's window closed"
        |c| Some(c.counters.zero_windows_received);
    CurRwinSent ["bytes"] Same "tcp_info rcv_wnd (Linux 6.2)" |c| info(c).rcv_wnd().map(u64::from);
    ZeroRwinSent [""] Counted "times that our window closed; the kernel's own counter is for the whole host \
        (TCPToZeroWindowAdv)"
        |c| {
        Some(c.counters.zero_windows_sent)
    };
    SndLimTimeRwin ["us"] Near "tcp_info rwnd_limited, with the resolution of jiffies"
        |c| info(c).rwnd_limited_us();
    SndLimTimeSnd ["us"] Near "tcp_info sndbuf_limited, plus the time without data to send since the \
        connection was first seen"
        |c| {
        Some(info(c).sndbuf_limited_us()? + app_idle_us(c)?)
    };
    SndLimTimeCwnd ["us"] Near "tcp_info busy_time - rwnd_limited - sndbuf_limited" |c| {
        Some(info(c).busy_time_us()?.saturating_sub(info(c).rwnd_limited_us()? + info(c).sndbuf_limited_us()?))
    };
    SndLimTransRwin [""] Blank "the kernel measures the time of each limit, and does not count changes"
        |_| None;
    SndLimTransSnd [""] Blank "as SndLimTransRwin" |_| None;
    SndLimTransCwnd [""] Blank "as SndLimTransRwin" |_| None;
    ECNsignals [""] Near "tcp_info delivered_ce: segments acknowledged as marked (web100 counts reductions)"
        |c| {
        info(c).delivered_ce().map(u64::from)
    };
    CERcvd ["segs"] Same "tcp_info received_ce (Linux 6.18)" |c| info(c).received_ce().map(u64::from);
    DSACKDups [""] Same "tcp_info dsack_dups" |c| info(c).dsack_dups().map(u64::from);
    DupAcksIn [""] Traced "ACKs without data that acknowledge nothing new and leave CurRwinRcvd as it is, while data is \
        outstanding (--per-ack)"
        |c| c.counters.traces_acks.then_some(c.counters.duplicate_acks);
    SACKsRcvd [""] Blank "tcp_info sacked counts segments SACKed now, not SACKs received" |_| None;
    Reordering ["segs"] Near "tcp_info reordering: the distance tolerated at present"
        |c| info(c).reordering().map(u64::from);
    ReorderingSeen [""] Near "tcp_info reord_seen" |c| info(c).reord_seen().map(u64::from);
    RcvOutOfOrder ["segs"] Near "tcp_info rcv_ooopack" |c| info(c).rcv_ooopack().map(u64::from);
    RcvRTT ["us"] Same "tcp_info rcv_rtt" |c| info(c).rcv_rtt_us().filter(|rtt| *rtt > 0).map(u64::from);
    SndWinScale ["bits"] Same "tcp_info snd_wscale" |c| info(c).wscales().map(|(snd, _)| u64::from(snd));
    RcvWinScale ["bits"] Same "tcp_info rcv_wscale" |c| info(c).wscales().map(|(_, rcv)| u64::from(rcv));
    TimestampsEnabled [""] Same "tcp_info options" |c| option_bit(&c.sample, 0);
    SACKEnabled [""] Same "tcp_info options" |c| option_bit(&c.sample, 1);
    ECNEnabled [""] Same "tcp_info options" |c| option_bit(&c.sample, 3);
    CurAppWQueue ["bytes"] Near "inet_diag wqueue: written and not acknowledged"
        |c| Some(c.sample.wqueue_bytes.into());
    CurAppRQueue ["bytes"] Same "inet_diag rqueue" |c| Some(c.sample.rqueue_bytes.into());
    CurRetxQueue ["bytes"] Near "tcp_info retrans x snd_mss" |c| {
        Some(u64::from(info(c).retrans()?) * u64::from(info(c).snd_mss()?))
    };
    CurReasmQueue ["bytes"] Blank "out-of-order segments are charged to the receive buffer together with all \
        others"
        |_| None;
    SpuriousFrDetected [""] Blank "undone recoveries are not counted per connection" |_| None;
    SpuriousRtoDetected [""] Blank "as SpuriousFrDetected" |_| None;
    LimCwnd ["segs"] Near "tcp_sock snd_cwnd_clamp, by eBPF: segments instead of bytes; blank while unlimited" |c| {
        Some(u64::from(c.limits?.cwnd_segs)).filter(|segments| *segments < u64::from(UNLIMITED_CWND))
    };
    LimRwin ["bytes"] Same "tcp_sock window_clamp, by eBPF" |c| Some(c.limits?.advertised_bytes.into());
    IpTtl [""] Blank "sock_diag does not report it" |_| None;
    IpTos [""] Same "INET_DIAG_TOS; for IPv6, INET_DIAG_TCLASS" |c| c.sample.tos.map(u64::from);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{ConnectionCounters, SocketAddresses, SocketCookie, SocketState};

    fn connection(info: TcpInfo) -> TrackedConnection {
        TrackedConnection {
            namespace: String::new(),
            process: None,
            sample: SocketSample {
                cookie: SocketCookie(1),
                addresses: SocketAddresses {
                    local: "1.1.1.1:1".parse().unwrap(),
                    peer: "1.1.1.2:2".parse().unwrap(),
                },
                state: SocketState::ESTABLISHED,
                uid: 0,
                inode: 1,
                rqueue_bytes: 11,
                wqueue_bytes: 12,
                tos: Some(4),
                congestion: None,
                congestion_info: None,
                memory: None,
                info,
            },
            sampled_ns: 5_000_000_000,
            first_seen_ns: 0,
            closed_ns: None,
            rates_bps: None,
            counters: ConnectionCounters::default(),
            clocks: None,
            limits: None,
        }
    }

    fn value(of: &TrackedConnection, name: &str) -> Option<u64> {
        INSTRUMENTS.iter().find(|i| i.name == name).unwrap_or_else(|| panic!("{name}")).value(of)
    }

    #[test]
    fn the_table_has_each_instrument_once_with_a_source() {
        let names: BTreeSet<_> = INSTRUMENTS.iter().map(|i| i.name).collect();
        assert_eq!(names.len(), INSTRUMENTS.len());
        assert!(INSTRUMENTS.iter().all(|i| !i.source.is_empty()));
        for name in "SegsOut SegsIn DataSegsOut HCDataOctetsOut OctetsRetrans SegsRetrans HCThruOctetsAcked CurMSS PipeSize \
            MaxPipeSize SmoothedRTT RTTVar SampleRTT MinRTT MaxRTT SumRTT CountRTT CurRTO CurCwnd CurSsthresh MaxSsCwnd \
            MaxCaCwnd SlowStart CongAvoid CongSignals Timeouts CurTimeoutCount FastRetran CurRwinRcvd MaxRwinRcvd \
            ZeroRwinRcvd CurRwinSent ZeroRwinSent SndLimTimeRwin SndLimTimeSnd SndLimTimeCwnd SndLimTransRwin ECNsignals \
            CERcvd DSACKDups DupAcksIn SACKsRcvd Reordering RcvRTT SndWinScale SACKEnabled CurAppWQueue CurAppRQueue \
            CurRetxQueue CurReasmQueue SpuriousFrDetected LimCwnd LimRwin IpTtl IpTos"
            .split_whitespace()
        {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn only_blank_and_traced_instruments_lack_a_value_on_a_new_kernel() {
        let mut whole = connection(TcpInfo::from_bytes(&[3; 280]));
        whole.counters.add_sample(1, &whole.sample.info.clone());
        whole.counters.add_sample(2, &TcpInfo::from_bytes(&[0; 280]));
        whole.limits = Some(crate::WindowLimits { cwnd_segs: 9, advertised_bytes: 65_536 });
        assert_eq!((value(&whole, "LimCwnd"), value(&whole, "LimRwin")), (Some(9), Some(65_536)));
        for instrument in INSTRUMENTS {
            let expected = !matches!(instrument.fidelity, Fidelity::Blank | Fidelity::Traced);
            // In this constructed sample the sender is in recovery, so it was in no other phase.
            let phases = ["MaxSsCwnd", "MaxCaCwnd"].contains(&instrument.name);
            assert_eq!(instrument.value(&whole).is_some(), expected && !phases, "{}", instrument.name);
        }
    }

    #[test]
    fn values_match_the_sources_that_the_table_states() {
        let mut bytes = [0u8; 280];
        for (at, value) in [(16, 1000u32), (24, 10), (28, 2), (32, 3), (36, 1)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(168, 3_000_000u64), (176, 1_000_000), (184, 500_000)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[5] = 0b1010;
        bytes[6] = 0x7a;
        let of = connection(TcpInfo::from_bytes(&bytes));
        assert_eq!(value(&of, "PipeSize"), Some(6000));
        assert_eq!(value(&of, "CurRetxQueue"), Some(1000));
        assert_eq!(value(&of, "SndLimTimeRwin"), Some(1_000_000));
        assert_eq!(value(&of, "SndLimTimeCwnd"), Some(1_500_000));
        assert_eq!(value(&of, "SndLimTimeSnd"), Some(2_500_000));
        let mut seen_later = connection(TcpInfo::from_bytes(&bytes));
        bytes[168..176].copy_from_slice(&2_000_000u64.to_ne_bytes());
        seen_later.counters.add_sample(0, &TcpInfo::from_bytes(&bytes));
        assert_eq!(value(&seen_later, "SndLimTimeSnd"), Some(4_500_000), "busy for 1 s of 5 s");
        assert_eq!((value(&of, "SACKEnabled"), value(&of, "TimestampsEnabled")), (Some(1), Some(0)));
        assert_eq!((value(&of, "SndWinScale"), value(&of, "RcvWinScale")), (Some(10), Some(7)));
        assert_eq!((value(&of, "CurAppRQueue"), value(&of, "IpTos")), (Some(11), Some(4)));
        let old = connection(TcpInfo::from_bytes(&bytes[..104]));
        assert_eq!(value(&old, "Timeouts"), None, "an older kernel does not report it");
    }
}
