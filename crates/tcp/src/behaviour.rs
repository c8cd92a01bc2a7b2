//! How the kernels that an endpoint can have differ, resolved once: what is decided by the kernel's series stands here and
//! is asked for by name where it matters. What changed within Linux 6 is asked by version, see [`Profile::at_least`].
//!
//! Linux 2.4 is that of 2.4.20 on a 32-bit machine (2002): net/ipv4/tcp_{input,output,timer}.c, include/net/tcp.h. Its sender
//! is `transmit/classic.rs`; the rest goes the way of Linux 6, for most of that is 25 years old. What it does not have is set
//! to nothing by [`Config::linux24`]: RACK, loss probes, F-RTO, pacing, super-packets, compressed ACKs, autotuning of the
//! receive buffer.
//!
//! Congestion controls under Linux 2.4: its own is Reno, in the stack; what came as patches (HighSpeed, Grid DT, BIC,
//! Scalable) changed the same places. Here every controller of [`CongestionControl`](crate::CongestionControl) works: it is
//! told of **one packet for each ACK** that acknowledges data while the window is full. So a file that counts what it is told
//! grows per ACK, as the patches did, and delayed ACKs halve its growth. A controller with `cong_control` has the window to
//! itself, as in Linux 6.
//!
//! Departures from Linux 2.4:
//!
//! 1. Reno's window grows by one segment after `cwnd` ACKs, not `cwnd + 1`, and slow start ends at `ssthresh`, not one
//!    above it.
//! 2. Controllers are told the round-trip time in microseconds; only the smoothed time and the timeout count in ticks.
//! 3. No route metrics from earlier connections, and no memory pressure.
//! 4. Buffers of received packets are as large as the frame, see
//!    [`PacketMemory::FrameSized`](crate::PacketMemory::FrameSized); some drivers had larger ones, and smaller windows.
//! 5. Nothing that was not deemed lost is sent again for want of new data (the end of `tcp_xmit_retransmit_queue`).
//! 6. Pacing happens where a scenario or a controller asks for it, which no 2.4 could.

use crate::{Config, Profile};

/// What the congestion window is raised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Packets that an ACK newly delivers (since 4.0).
    Packets,
    /// ACKs that acknowledge data.
    Acks,
}

/// How losses are found and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// By time (RACK), with proportional rate reduction.
    Rack,
    /// By forward acknowledgement (FACK) or duplicate ACKs, with rate halving: one packet leaves for two ACKs.
    Fack,
}

/// What the smoothed round-trip time is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RttClock {
    /// Microseconds between sending and acknowledgement.
    Micros,
    /// Ticks between the timestamp and its echo.
    Ticks,
}

/// When a timer of so many ticks ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimerWheel {
    /// Rounded up to 1, 8, 64 or 512 ticks (since 4.8).
    Coarse,
    /// At its tick.
    Exact,
}

/// How both ends' windows are chosen, and what buffers follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    /// Ten segments; the SYN announces up to 65,535 bytes, its scale is for the largest buffer that may come.
    Large,
    /// Two to four segments; the SYN announces two to four, its scale is for the present buffer, and later windows are
    /// whole segments.
    Small,
}

/// What the kernel's series decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behaviour {
    pub(crate) growth: Growth,
    pub(crate) recovery: Recovery,
    pub(crate) rtt_clock: RttClock,
    pub(crate) timer_wheel: TimerWheel,
    pub(crate) windows: Windows,
    /// The sender leaves most of its data out of the device's queue (TSQ, since 3.6).
    pub(crate) small_queues: bool,
    /// Timestamps are in steps of so many milliseconds.
    pub(crate) timestamp_step_ms: u32,
    /// Timeout of a SYN (`TCP_TIMEOUT_INIT`), s.
    pub(crate) first_timeout_s: u32,
    /// Memory of a packet in the send buffer beside its data, bytes.
    pub(crate) packet_overhead: u32,
}

/// `MAX_TCP_HEADER` + 16 + `sizeof(struct sk_buff)` of Linux 2.4 on a 32-bit machine, bytes.
const OVERHEAD_24: u32 = 160 + 16 + 160;

impl Behaviour {
    /// The behaviour of an endpoint that is set so.
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
                // SKB_TRUESIZE of a head of 1024 bytes; from 6.3 on, of one that just holds the headers: 832 on a
                // 6.18, as SO_MEMINFO says.
                packet_overhead: match config.profile.at_least(6, 3) {
                    true => 576 + config.max_tcp_header(),
                    false => 1280,
                },
            },
        }
    }
}
