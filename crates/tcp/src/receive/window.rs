//! The announced window: its size for a receive buffer, its growth, and its header field.
//!
//! Source: `tcp_win_from_space` (include/net/tcp.h); `tcp_select_initial_window`, `__tcp_select_window`,
//! `tcp_select_window` (net/ipv4/tcp_output.c); `tcp_init_buffer_space`, `tcp_grow_window`,
//! `tcp_clamp_window`, `tcp_measure_rcv_mss` (net/ipv4/tcp_input.c); `tcp_set_window_clamp` (net/ipv4/tcp.c).
//!
//! Differences from the kernel:
//!
//! 1. There is no memory pressure in the system (`tcp_mem`).
//! 2. `tcp_shrink_window` and `tcp_workaround_signed_windows` are 0.

use super::{
    Receiver,
    memory::Packet,
    settings::Settings,
    window_share::{SHARE_SHIFT, WindowShare},
};
use crate::{Config, Segment, TcpSock, behaviour::Windows};

/// `TCP_INIT_CWND`: initial estimate of the segments that the application reads per round trip.
const FIRST_SPACE_SEGS: u32 = 10;
/// `TCP_MAX_WSCALE` (RFC 7323 section 2.3).
const MAX_WINDOW_SCALE: u8 = 14;
/// `MAX_TCP_WINDOW`: an initial window that old stacks with signed arithmetic accept, bytes.
const MAX_SIGNED_WINDOW: u32 = 32_767;
/// `SOCK_MIN_RCVBUF / 2`, bytes.
const MIN_CLAMP: u32 = (2048 + 256) / 2;

/// The window and scale in a SYN or SYN-ACK, and the limit of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitialWindow {
    /// `rcv_wnd`, bytes; also the initial `rcv_ssthresh`. The header field announces at most 65,535 of it.
    pub rcv_wnd: u32,
    /// `window_clamp`, bytes.
    pub window_clamp: u32,
    /// Window scale to announce.
    pub scale: u8,
}

impl InitialWindow {
    /// `tcp_select_initial_window` as `tcp_connect_init` and `tcp_openreq_init_rwin` call it: `mss` is the
    /// announced one, minus timestamps if the peer's SYN has them. `scaling`: window scaling may be used.
    pub fn select(config: &Config, mss: u32, scaling: bool) -> InitialWindow {
        let settings = Settings::new(config);
        let rcvbuf = settings.initial_rcvbuf;
        let full = settings.initial_share().window(i64::from(rcvbuf)).max(0) as u32;
        let mut clamp = if settings.locked { full } else { u32::from(u16::MAX) << MAX_WINDOW_SCALE };
        let mut space = full.min(clamp);
        if space > mss {
            space -= space % mss.max(1);
        }
        if settings.behaviour.windows == Windows::Small {
            let tuned = if config.moderate_rcvbuf && !settings.locked { config.rmem[2] } else { 0 };
            return InitialWindow::small(mss, scaling, space, tuned.max(space), clamp);
        }
        let mut rcv_wnd = space;
        // "tcp: remove 64 KByte limit for initial tp->rcv_wnd value" (378979e94e95). The header field of a
        // SYN or SYN-ACK is still limited.
        if !config.profile.at_least(6, 10) {
            rcv_wnd = rcv_wnd.min(u32::from(u16::MAX));
        }
        if let Some(segs) = config.initrwnd {
            rcv_wnd = rcv_wnd.min(segs.saturating_mul(mss));
        }
        let mut scale = 0;
        if scaling {
            let max_space = space.max(config.rmem[2]).max(config.rmem_max).min(clamp);
            scale = max_space.max(1).ilog2().saturating_sub(15).min(u32::from(MAX_WINDOW_SCALE)) as u8;
        }
        clamp = clamp.min(u32::from(u16::MAX) << scale);
        InitialWindow { rcv_wnd, window_clamp: clamp, scale }
    }

    /// `tcp_select_initial_window` of Linux 2.4: two to four segments within `space`, the window of the
    /// current buffer, and a scale for `max_space`, the window of the largest buffer. They differ if web100
    /// tunes the buffer.
    fn small(mss: u32, scaling: bool, space: u32, max_space: u32, clamp: u32) -> InitialWindow {
        let mut scale = 0;
        if scaling {
            scale = max_space.max(1).ilog2().saturating_sub(15).min(u32::from(MAX_WINDOW_SCALE)) as u8;
        }
        let segs = match mss {
            ..=1460 => 4,
            1461..=4380 => 3,
            _ => 2,
        };
        let mut rcv_wnd = space.min(MAX_SIGNED_WINDOW);
        if mss > 1 << scale {
            rcv_wnd = rcv_wnd.min(segs * mss);
        }
        InitialWindow { rcv_wnd, window_clamp: clamp.min(u32::from(u16::MAX) << scale), scale }
    }
}

impl Receiver {
    /// `tcp_space`: free space in the buffer as window, bytes.
    #[inline]
    pub(super) fn space(&self, sk: &TcpSock) -> i64 {
        self.share.window(i64::from(sk.sk_rcvbuf) - i64::from(self.rmem_alloc))
    }

    /// `tcp_full_space`: the window of the empty buffer, bytes.
    #[inline]
    pub(super) fn full_space(&self, sk: &TcpSock) -> i64 {
        self.share.window(i64::from(sk.sk_rcvbuf))
    }

    /// `tcp_receive_window`: remainder of the last announced window, bytes.
    #[inline]
    pub(super) fn receive_window(&self, sk: &TcpSock) -> u32 {
        let left = self.rcv_wup.wrapping_add(sk.rcv_wnd).wrapping_sub(sk.rcv_nxt) as i32;
        left.max(0) as u32
    }

    /// `tcp_init_buffer_space`.
    pub(super) fn init_buffer_space(&mut self, sk: &mut TcpSock, now: u64) {
        let advmss = u32::from(sk.advmss);
        let app_win = u32::from(self.settings.app_win);
        let full = self.full_space(sk).max(0) as u32;
        if sk.window_clamp >= full {
            sk.window_clamp = full;
            if app_win > 0 && full > 4 * advmss {
                sk.window_clamp = (full - full.checked_shr(app_win).unwrap_or(0)).max(4 * advmss);
            }
        }
        // One segment is reserved.
        if app_win > 0 && sk.window_clamp > 2 * advmss && sk.window_clamp + advmss > full {
            sk.window_clamp = (2 * advmss).max(full.saturating_sub(advmss));
        }
        sk.rcv_ssthresh = sk.rcv_ssthresh.min(sk.window_clamp);
        let space = sk.rcv_ssthresh.min(sk.rcv_wnd).min(FIRST_SPACE_SEGS * advmss);
        self.read_rate.restart(sk.copied_seq, now);
        self.read_rate.space = space;
    }

    /// `tcp_measure_rcv_mss`: the peer's segment size, and from 6.6 on the window's share of the buffer.
    pub(super) fn measure_rcv_mss(&mut self, sk: &mut TcpSock, segment: &Segment, packet: &Packet) {
        let last = std::mem::take(&mut sk.icsk_ack_last_seg_size);
        let size = if segment.segs() > 1 { u32::from(segment.mss) } else { segment.len };
        let rcv_mss = u32::from(sk.icsk_ack_rcv_mss);
        if size >= rcv_mss {
            if size != rcv_mss {
                self.learn_share(sk, packet);
            }
            sk.icsk_ack_rcv_mss = size.min(u32::from(sk.advmss)) as u16;
            if segment.flags.has(crate::Flags::PSH) {
                sk.icsk_ack_pending |= super::delayed_ack::PUSHED;
            }
            return;
        }
        // A smaller size counts as the peer's segment size if two consecutive segments have it and it is not
        // the end of a write.
        const DEFAULT_MSS: u32 = 536;
        const MIN_MSS: u32 = 88;
        let options = segment.option_bytes(self.timestamps);
        let fixed = u32::from(sk.tcp_header_len).saturating_sub(20);
        let with_options = size + options;
        let ends = segment.flags.0 & (crate::Flags::PSH.0 | crate::Flags::FIN.0 | crate::Flags::SYN.0) != 0;
        if with_options >= DEFAULT_MSS || with_options >= MIN_MSS && !ends {
            let size = with_options.saturating_sub(fixed) as u16;
            sk.icsk_ack_last_seg_size = size;
            if size == last {
                sk.icsk_ack_rcv_mss = size;
                return;
            }
        }
        if sk.icsk_ack_pending & super::delayed_ack::PUSHED != 0 {
            sk.icsk_ack_pending |= super::delayed_ack::PUSHED2;
        }
        sk.icsk_ack_pending |= super::delayed_ack::PUSHED;
    }

    fn learn_share(&mut self, sk: &mut TcpSock, packet: &Packet) {
        let WindowShare::Learnt(old) = self.share else { return };
        let ratio = ((u64::from(packet.len) << SHARE_SHIFT) / u64::from(packet.truesize.max(1))) as u8;
        self.share = WindowShare::Learnt(ratio.max(1));
        if ratio.max(1) == old {
            return;
        }
        let clamp = (self.full_space(sk).max(0) as u32).max(MIN_CLAMP);
        if clamp < sk.window_clamp {
            sk.rcv_ssthresh = sk.rcv_ssthresh.min(clamp);
        } else {
            sk.rcv_ssthresh = sk.rcv_ssthresh.max(sk.rcv_wnd.min(clamp));
        }
        sk.window_clamp = clamp;
        self.read_rate.space = self.read_rate.space.min(clamp);
    }

    /// `tcp_grow_window`: opens the window as segments arrive whose memory would fit.
    pub(super) fn grow_window(&mut self, sk: &mut TcpSock, packet: &Packet, coalescing: bool) {
        let limit = i64::from(sk.window_clamp).min(self.space(sk)) - i64::from(sk.rcv_ssthresh);
        if limit <= 0 {
            return;
        }
        let truesize = if coalescing { packet.adjusted_truesize() } else { packet.truesize };
        let len = i64::from(packet.len);
        let by = if self.share.window(i64::from(truesize)) <= len {
            2 * i64::from(sk.advmss)
        } else {
            self.slow_growth(sk, truesize, len)
        };
        if by > 0 {
            sk.rcv_ssthresh += limit.min(by.max(2 * len)) as u32;
            sk.icsk_ack_quick |= 1;
        }
    }

    /// `__tcp_grow_window`: a packet with much overhead opens a wide window less than a narrow one.
    fn slow_growth(&self, sk: &TcpSock, truesize: u32, len: i64) -> i64 {
        let mut truesize = self.share.window(i64::from(truesize)) >> 1;
        let mut window = self.share.window(i64::from(self.settings.max_rcvbuf)) >> 1;
        while i64::from(sk.rcv_ssthresh) <= window {
            if truesize <= len {
                return 2 * i64::from(sk.icsk_ack_rcv_mss);
            }
            truesize >>= 1;
            window >>= 1;
        }
        0
    }

    /// `tcp_clamp_window`: called when the buffer is full.
    pub(super) fn clamp_window(&mut self, sk: &mut TcpSock) {
        sk.icsk_ack_quick = 0;
        let may_grow = match self.settings.behaviour.windows {
            Windows::Large => true,
            Windows::Small => !self.reorder.is_empty(),
        };
        if sk.sk_rcvbuf < self.settings.max_rcvbuf && !self.settings.locked && may_grow {
            sk.sk_rcvbuf = (self.rmem_alloc as i32).min(self.settings.max_rcvbuf);
        }
        if self.rmem_alloc as i32 > sk.sk_rcvbuf {
            sk.rcv_ssthresh = sk.window_clamp.min(2 * u32::from(sk.advmss));
        }
    }

    /// `__tcp_select_window`: the window that could be announced now, bytes.
    pub(super) fn possible_window(&self, sk: &mut TcpSock) -> u32 {
        let allowed = self.full_space(sk);
        let full = allowed.min(i64::from(sk.window_clamp));
        let mss = i64::from(sk.icsk_ack_rcv_mss).min(full);
        if mss <= 0 {
            return 0;
        }
        let mut free = self.space(sk);
        if free < full >> 1 {
            sk.icsk_ack_quick = 0;
            free &= !((1 << self.window_scale) - 1);
            if free < allowed >> 4 || free < mss {
                return 0;
            }
        }
        free = free.min(i64::from(sk.rcv_ssthresh));
        let in_segments = self.settings.behaviour.windows == Windows::Small;
        if self.window_scale > 0 && !in_segments {
            return (free as u32).next_multiple_of(1 << self.window_scale);
        }
        let window = i64::from(sk.rcv_wnd);
        if window <= free - mss || window > free {
            return (free - free % mss) as u32;
        }
        if !in_segments && mss == full && free > window + (full >> 1) {
            return free as u32;
        }
        window as u32
    }

    /// `tcp_select_window`: selects and stores the window. Returns the header field. The right edge never
    /// moves to the left, except (6.6 and newer) when a segment was dropped because the buffer was full.
    pub(super) fn select_window(&mut self, sk: &mut TcpSock) -> u16 {
        if let Some(field) = self.announced {
            return field;
        }
        if self.settings.zero_without_memory && sk.icsk_ack_pending & super::delayed_ack::NOMEM != 0 {
            sk.rcv_wnd = 0;
            self.rcv_wup = sk.rcv_nxt;
            return 0;
        }
        let left = self.receive_window(sk);
        let mut window = self.possible_window(sk);
        if window < left {
            window = left.next_multiple_of(1 << self.window_scale);
        }
        sk.rcv_wnd = window;
        self.rcv_wup = sk.rcv_nxt;
        let field = (window >> self.window_scale).min(u32::from(u16::MAX)) as u16;
        self.announced = Some(field);
        field
    }
}
