//! The differences between the kernel series that an endpoint can simulate, resolved once per endpoint.
//!
//! Differences between series are members of [`Behaviour`]; changes within Linux 6 are version checks
//! ([`Profile::at_least`]).
//!
//! Linux 2.4 here means 2.4.20 on a 32-bit machine (2002): net/ipv4/tcp_{input,output,timer}.c,
//! include/net/tcp.h. Its loss recovery is `transmit/classic.rs`; everything else is the code for Linux 6,
//! most of which is 25 years old. [`Config::linux24`] turns off the features that it lacks: RACK, loss
//! probes, F-RTO, pacing, super-packets, compressed ACKs, autotuning of the receive buffer.
//!
//! Congestion controls under Linux 2.4: Reno was part of the stack; patches (HighSpeed, Grid DT, BIC,
//! Scalable) changed the same code. Here every [`CongestionControl`](crate::CongestionControl) works:
//! `cong_avoid` reports **one packet for each ACK** that acknowledges data while the window is full. So an
//! algorithm that counts acknowledged packets grows per ACK, as the patches did, and delayed ACKs halve its
//! growth. A controller with `cong_control` sets the window alone, as in Linux 6.
//!
//! Differences from Linux 2.4:
//!
//! 1. Reno's window grows by one segment after `cwnd` ACKs, not `cwnd + 1`, and slow start ends at
//!    `ssthresh`, not one above it.
//! 2. Controllers receive round-trip times in microseconds; only the smoothed time and the timeout count in
//!    ticks.
//! 3. No route metrics from earlier connections, and no memory pressure.
//! 4. Buffers of received packets are as large as the frame, see
//!    [`PacketMemory::FrameSized`](crate::PacketMemory::FrameSized); with some drivers buffers were larger,
//!    and therefore windows smaller.
//! 5. Only packets marked lost are retransmitted, even if there is no new data (the end of
//!    `tcp_xmit_retransmit_queue`).
//! 6. A scenario or a controller can turn on pacing, which Linux 2.4 did not have.

use crate::{Config, Profile};

/// `sk_buff`, and `skb_shared_info` at the end of a packet's head, each in whole cache lines
/// (`SKB_DATA_ALIGN`), bytes.
pub(crate) const SK_BUFF: u32 = 256;
pub(crate) const SHARED_INFO: u32 = 320;
/// `L1_CACHE_BYTES`.
pub(crate) const CACHE_LINE: u32 = 64;

/// Since Linux 6.3: memory of a packet with a small head, whose data is in pages (`SKB_TRUESIZE` of a head
/// from the cache of `SKB_SMALL_HEAD_CACHE_SIZE`, net/core/skbuff.c), bytes.
///
/// Up to 6.11 the head has space for `MAX_TCP_HEADER`. Since 6.14 (14ad6ed30a10), and in the stable series of
/// 6.12, it has space for `GRO_MAX_HEAD_PAD`: a cache line more. Observed (SO_MEMINFO): 896 on 6.12.117 and
/// 7.2.13 with wireless networks, 832 on 6.18 without.
pub(crate) fn small_head_truesize(config: &Config) -> u32 {
    let gro = if config.profile.at_least(6, 12) { CACHE_LINE } else { 0 };
    match config.max_tcp_header() + gro + SHARED_INFO {
        // The cache's size is not a power of two.
        size if size.is_power_of_two() => SK_BUFF + size + CACHE_LINE,
        size => SK_BUFF + size,
    }
}

/// The events that increase the congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Packets that an ACK newly delivers (since 4.0).
    Packets,
    /// ACKs that acknowledge data.
    Acks,
}

/// Loss detection and the reduction that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Loss detection by time (RACK), with proportional rate reduction.
    Rack,
    /// Loss detection by forward acknowledgement (FACK) or duplicate ACKs, with rate halving: one packet is
    /// sent for two ACKs.
    Fack,
}

/// The source of samples for the smoothed round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RttClock {
    /// Microseconds between sending and acknowledgement.
    Micros,
    /// Ticks between the timestamp and its echo.
    Ticks,
}

/// Expiry of timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimerWheel {
    /// Rounded up to 1, 8, 64 or 512 ticks (since 4.8).
    Coarse,
    /// Exactly at the tick.
    Exact,
}

/// The initial windows of both ends, and the buffers that follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    /// Ten segments; the SYN announces up to 65,535 bytes, its scale fits the largest possible buffer.
    Large,
    /// Two to four segments; the SYN announces two to four, its scale fits the current buffer, and later
    /// windows are whole segments.
    Small,
}

/// The behaviour of a kernel series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behaviour {
    pub(crate) growth: Growth,
    pub(crate) recovery: Recovery,
    pub(crate) rtt_clock: RttClock,
    pub(crate) timer_wheel: TimerWheel,
    pub(crate) windows: Windows,
    /// TCP small queues: the sender limits its data in the device's queue (TSQ, since 3.6).
    pub(crate) small_queues: bool,
    /// Resolution of timestamps, ms.
    pub(crate) timestamp_step_ms: u32,
    /// Timeout of a SYN (`TCP_TIMEOUT_INIT`), s.
    pub(crate) first_timeout_s: u32,
    /// A packet takes the send buffer's memory of a full segment, whatever it carries.
    pub(crate) whole_packets: bool,
    /// Memory of a packet in the send buffer in addition to its data, bytes.
    pub(crate) packet_overhead: u32,
}

/// `MAX_TCP_HEADER` + 16 + `sizeof(struct sk_buff)` of Linux 2.4 on a 32-bit machine, bytes.
const OVERHEAD_24: u32 = 160 + 16 + 160;

impl Behaviour {
    /// The behaviour of an endpoint with this configuration.
    pub(crate) fn of(config: &Config) -> Behaviour {
        match config.profile {
            Profile::Linux24 => Behaviour {
                growth: Growth::Acks,
                recovery: Recovery::Fack,
                rtt_clock: RttClock::Ticks,
                timer_wheel: TimerWheel::Exact,
                windows: Windows::Small,
                small_queues: false,
                timestamp_step_ms: (1000 / config.hz.max(1)).max(1),
                first_timeout_s: 3,
                whole_packets: true,
                packet_overhead: OVERHEAD_24,
            },
            Profile::Linux6 { .. } => Behaviour {
                growth: Growth::Packets,
                recovery: Recovery::Rack,
                rtt_clock: RttClock::Micros,
                timer_wheel: TimerWheel::Coarse,
                windows: Windows::Large,
                small_queues: true,
                timestamp_step_ms: 1,
                first_timeout_s: 1,
                whole_packets: false,
                // SKB_TRUESIZE of a head from kmalloc, 1280 with a header of 320; from 6.3 on, of a small
                // head.
                packet_overhead: match config.profile.at_least(6, 3) {
                    true => small_head_truesize(config),
                    false => SK_BUFF + (SHARED_INFO + config.max_tcp_header()).next_power_of_two(),
                },
            },
        }
    }
}
