//! Which share of a receive buffer a kernel offers as window, told from the kernel and the packets.
//!
//! Up to 6.5 the share is one half (`tcp_adv_win_scale` = 1). From 6.6 the kernel learns it
//! (`tcp_measure_rcv_mss`, net/ipv4/tcp_input.c): payload x 256 / truesize of a received buffer, taken
//! only when the segment size differs from the one last seen. Within a bulk flow that happens once, so the
//! first full-sized arrival decides, and two things matter: how many segments arrive together, and
//! how the receiving device allocates memory for them.
//!
//! Measured on 6.18 over a TAP device at RTTs of 20 and 100 ms, as window / buffer: MTU 1500 79 %
//! (blocking writes: 66 %), MTU 9000 83 %, at 0.6 ms 80 %; this module says 79, 66, 83 and 80 %.
//!
//! Not considered: `tcp_adv_win_scale` other than 1, a first write smaller than two segments, and what a
//! network card's driver does: there [`Delivery::Nic`] keeps to the share that the kernel starts with.

use units::Time;

use crate::{INITIAL_WINDOW_SEGS, KernelVersion};

/// How arriving packets are given memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A TAP device written without blocking: a frame that fits a page is built in place (`tun_build_skb`).
    TapNonBlocking,
    /// A TAP or TUN device with blocking writes, or a packet socket on a veth: `alloc_skb_with_frags`.
    Allocated,
    /// A network card: the driver decides, and the kernel's first assumption of one half is a safe guess.
    Nic,
}

/// `struct sk_buff`, aligned (include/linux/skbuff.h on 64 bits).
const SK_BUFF_BYTES: u64 = 256;
/// `struct skb_shared_info`, aligned.
const SHARED_INFO_BYTES: u64 = 320;
/// The head of a buffer whose payload lies in pages, from the small-head cache. 576 to 640 by the kernel's
/// configuration (`MAX_TCP_HEADER`); the difference is under 1 % of the share.
const SMALL_HEAD_BYTES: u64 = 576;
/// `NET_SKB_PAD`: room before the frame.
const PAD_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4_096;
/// `TCP_RMEM_TO_WIN_SCALE`: the share is stored in 256ths.
const SHARE_STEPS: u64 = 256;
const ETHERNET_BYTES: u64 = 14;
/// `sk_gso_max_size` of an ordinary device.
const GSO_MAX_BYTES: f64 = 65_536.0;

/// How many segments a Linux sender's first super-packet carries on a path of `rtt`.
///
/// `tcp_tso_autosize`: about a millisecond (2^-10 s) at the initial pacing rate of 2 x cwnd / RTT, and for short
/// round trips more (`tcp_tso_rtt_log`, from 5.18); at least 2, at most half the initial window (`tcp_cwnd_test`).
pub fn first_burst_segs(mss: u32, rtt: Time) -> u32 {
    let initial = f64::from(INITIAL_WINDOW_SEGS * mss);
    let paced = 2.0 * initial / rtt.as_secs_f64().max(1e-6) / 1_024.0;
    let halvings = rtt.as_micros_f64() as u64 >> 9;
    let nearby = GSO_MAX_BYTES / (halvings.min(63) as f64).exp2();
    let segments = ((paced + nearby).min(GSO_MAX_BYTES) / f64::from(mss.max(1))) as u32;
    segments.clamp(2, INITIAL_WINDOW_SEGS / 2)
}

/// Memory that the kernel charges for one arrival of `payload` bytes behind `headers` (Ethernet, IP and TCP).
///
/// Sources: `tun_get_user`, `tun_build_skb`, `tun_alloc_skb` (drivers/net/tun.c), `alloc_skb_with_frags`
/// (net/core/skbuff.c) from 6.6 on.
pub fn received_truesize(payload: u64, headers: u64, delivery: Delivery) -> u64 {
    let frame = PAD_BYTES + headers + payload;
    let in_place = frame.next_multiple_of(64) + SHARED_INFO_BYTES;
    if delivery == Delivery::TapNonBlocking && in_place <= PAGE_BYTES {
        return in_place + SK_BUFF_BYTES;
    }
    if frame < PAGE_BYTES {
        // One piece from the allocator's power-of-two sizes.
        return (frame + SHARED_INFO_BYTES).next_power_of_two() + SK_BUFF_BYTES;
    }
    // Headers in the head; payload in blocks of 1, 2, 4 or 8 pages, none larger than what is left.
    payload.next_multiple_of(PAGE_BYTES) + SMALL_HEAD_BYTES + SK_BUFF_BYTES
}

/// The share of a receive buffer that becomes window: 0 to 1.
///
/// `headers` are IP and TCP without Ethernet; `rtt` is the two-way propagation delay.
pub fn window_share(kernel: KernelVersion, mss: u32, headers: u32, rtt: Time, delivery: Delivery) -> f64 {
    if !kernel.learns_window_share() || delivery == Delivery::Nic {
        return 0.5;
    }
    let payload = u64::from(first_burst_segs(mss, rtt)) * u64::from(mss);
    let truesize = received_truesize(payload, ETHERNET_BYTES + u64::from(headers), delivery);
    (payload * SHARE_STEPS / truesize) as f64 / SHARE_STEPS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: KernelVersion = KernelVersion::new(6, 18);

    fn share(mss: u32, rtt_us: u64, delivery: Delivery) -> f64 {
        window_share(NEW, mss, 52, Time::from_micros(rtt_us), delivery)
    }

    #[test]
    fn one_half_up_to_6_5() {
        let old = KernelVersion::new(6, 5);
        assert_eq!(window_share(old, 1_448, 52, Time::from_millis(20), Delivery::TapNonBlocking), 0.5);
        assert_eq!(share(1_448, 20_000, Delivery::Nic), 0.5);
    }

    /// window / buffer as measured on 6.18 (the window is rounded down, so the measured shares are a little lower).
    #[test]
    fn agrees_with_what_6_18_did() {
        for (mss, rtt_us, delivery, measured) in [
            (1_448, 20_000, Delivery::TapNonBlocking, 13_283_660.0 / 16_777_216.0),
            (1_448, 100_000, Delivery::TapNonBlocking, 3_315_548.0 / 4_194_304.0),
            (1_448, 600, Delivery::TapNonBlocking, 3_351_493.0 / 4_194_304.0),
            (1_448, 20_000, Delivery::Allocated, 2_765_687.0 / 4_194_304.0),
            (2_948, 20_000, Delivery::TapNonBlocking, 2_727_569.0 / 4_194_304.0),
            (8_948, 20_000, Delivery::TapNonBlocking, 14_000_040.0 / 16_777_216.0),
            (8_948, 20_000, Delivery::Allocated, 3_486_488.0 / 4_194_304.0),
        ] {
            let model = share(mss, rtt_us, delivery);
            assert!(
                (model / measured - 1.0).abs() < 0.01,
                "mss {mss} rtt {rtt_us} {delivery:?}: {model} {measured}"
            );
        }
    }

    #[test]
    fn the_first_burst() {
        assert_eq!(first_burst_segs(1_448, Time::from_millis(20)), 2);
        assert_eq!(first_burst_segs(8_948, Time::from_millis(20)), 2);
        assert_eq!(first_burst_segs(1_448, Time::from_micros(600)), 5);
        assert_eq!(first_burst_segs(1_448, Time::ZERO), 5);
        assert_eq!(first_burst_segs(1_448, Time::MAX), 2);
    }

    #[test]
    fn memory_of_an_arrival() {
        assert_eq!(received_truesize(2_896, 66, Delivery::TapNonBlocking), 3_072 + 320 + 256);
        assert_eq!(received_truesize(2_896, 66, Delivery::Allocated), 4_096 + 256);
        assert_eq!(received_truesize(17_896, 66, Delivery::Allocated), 20_480 + 832);
    }
}
