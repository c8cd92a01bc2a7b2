//! Drives a congestion control for a transport that is not TCP and detects its losses itself, such as QUIC
//! (RFC 9002).
//!
//! [`CongestionDriver`] maintains the members of [`TcpSock`] from three kinds of events: a packet was sent,
//! an acknowledgement arrived, packets were lost. It calls the controller in the order of `tcp_ack` (Linux
//! 6.18, `net/ipv4`).
//!
//! Differences from the kernel, because such a transport gives each packet a new number and never retransmits
//! one:
//!
//! 1. `packets_out` is the number of packets in flight; lost packets leave it, so `sacked_out`, `lost_out`
//!    and `retrans_out` are 0.
//! 2. A reduction ends at the first acknowledgement of a packet that was sent after it began (RFC 9002,
//!    section 7.3.2), and is never undone.
//! 3. Losses are reported after the acknowledgement that revealed them: the next rate sample has them.
//! 4. `snd_una` counts acknowledged and lost packets. `rtt_min` is the minimum since the start, not of the
//!    last 300 s.
//! 5. The round-trip time is that of the packet that was sent last, because acknowledgements may be delayed.

use std::collections::VecDeque;

use crate::{
    AckSample, CaEvent, CaState, CongestionControl, INFINITE_SSTHRESH, Operation, RateSample, TcpSock,
    flag::{self, AckFlags},
};

/// Timer ticks per second (HZ) that an algorithm must be built or set for, whatever the host's kernel.
pub const DRIVER_HZ: u32 = 250;
/// Length of a jiffy, us.
const JIFFY_US: u64 = 1_000_000 / DRIVER_HZ as u64;
/// `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio` defaults, percent.
const PACING_SLOW_START_PERCENT: u32 = 200;
const PACING_AVOIDANCE_PERCENT: u32 = 120;
/// The clock starts at this value, us: algorithms take a time of 0 as "never".
const START_US: u64 = 1_000_000;
/// The state at the transmission of a packet is kept at least this long, us, and for this number of round
/// trips.
const MIN_RECORD_US: u64 = 1_000_000;
const RECORD_ROUND_TRIPS: u64 = 8;

/// The state when packets were sent (`tcp_skb_cb.tx`).
#[derive(Debug, Clone, Copy)]
struct SendRecord {
    sent_us: u64,
    first_tx_us: u64,
    delivered_us: u64,
    delivered: u32,
    in_flight: u32,
    is_app_limited: bool,
}

/// The packets of one acknowledgement so far.
#[derive(Debug, Default)]
struct Acknowledgement {
    delivered: u32,
    newest: Option<SendRecord>,
    prior_in_flight: u32,
}

/// A congestion control with the socket that it sees.
#[derive(Debug)]
pub struct CongestionDriver<C: ?Sized> {
    sk: TcpSock,
    cc: Box<C>,
    /// By time of transmission; packets that were sent at one time share a record.
    records: VecDeque<SendRecord>,
    current: Acknowledgement,
    /// Lost since the last rate sample, packets.
    losses: u32,
    sent_packets: u64,
    /// When the current or last reduction began, us.
    reduction_us: u64,
}

impl<C: CongestionControl + ?Sized> CongestionDriver<C> {
    /// A new connection whose full packets have `packet_bytes` bytes.
    pub fn new(cc: Box<C>, packet_bytes: u32) -> Self {
        let sk = TcpSock {
            mss_cache: packet_bytes.max(1),
            // Nothing was sent yet: the application does not limit the connection.
            app_limited: 0,
            ..TcpSock::default()
        };
        let mut driver = CongestionDriver {
            sk,
            cc,
            records: VecDeque::new(),
            current: Acknowledgement::default(),
            losses: 0,
            sent_packets: 0,
            reduction_us: 0,
        };
        driver.set_time(0);
        driver.sk.lsndtime = driver.jiffies();
        driver.cc.init(&mut driver.sk);
        // `icsk_ca_initialized`.
        driver.sk.icsk_ca_bits |= 1 << 5;
        driver
    }

    /// The socket.
    pub fn sk(&self) -> &TcpSock {
        &self.sk
    }

    /// The congestion window, bytes.
    pub fn window_bytes(&self) -> u64 {
        u64::from(self.sk.snd_cwnd.max(1)) * u64::from(self.sk.mss_cache)
    }

    /// The slow-start threshold, bytes; `None` before the first loss.
    pub fn ssthresh_bytes(&self) -> Option<u64> {
        let has_threshold = self.sk.snd_ssthresh < INFINITE_SSTHRESH;
        has_threshold.then(|| u64::from(self.sk.snd_ssthresh) * u64::from(self.sk.mss_cache))
    }

    /// The rate at which the algorithm requests to be paced, bytes/s; `None` if it requests no pacing.
    pub fn pacing_rate(&self) -> Option<u64> {
        let is_paced = self.sk.sk_pacing_status != 0 || self.cc.has(Operation::CongControl);
        (is_paced && self.sk.sk_pacing_rate != u64::MAX).then_some(self.sk.sk_pacing_rate)
    }

    /// Sets the size of full packets. The window keeps its number of packets.
    pub fn set_packet_bytes(&mut self, bytes: u32) {
        self.sk.mss_cache = bytes.max(1);
    }

    /// A packet of `bytes` bytes was sent. All times are us since the connection began.
    pub fn sent(&mut self, now_us: u64, bytes: u64) {
        self.set_time(now_us);
        let now_us = self.sk.tcp_mstamp;
        if self.sk.packets_out == 0 {
            self.cc.cwnd_event(&mut self.sk, CaEvent::TxStart);
            self.sk.first_tx_mstamp = now_us;
            self.sk.delivered_mstamp = now_us;
        }
        let sk = &mut self.sk;
        sk.packets_out += 1;
        if self.records.back().is_none_or(|record| record.sent_us < now_us) {
            self.records.push_back(SendRecord {
                sent_us: now_us,
                first_tx_us: sk.first_tx_mstamp,
                delivered_us: sk.delivered_mstamp,
                delivered: sk.delivered,
                in_flight: sk.packets_out,
                is_app_limited: sk.app_limited != 0,
            });
        }
        self.sent_packets += 1;
        sk.bytes_sent += bytes;
        sk.segs_out = sk.segs_out.wrapping_add(1);
        sk.data_segs_out = sk.data_segs_out.wrapping_add(1);
        sk.lsndtime = (now_us / JIFFY_US) as u32;
        if sk.in_cwnd_reduction() {
            sk.prr_out += 1;
        }
        self.update_sequence();
        self.validate_window();
    }

    /// A packet that was sent at `sent_us` is acknowledged. [`CongestionDriver::end_acknowledgement`]
    /// follows.
    pub fn acknowledged(&mut self, now_us: u64, sent_us: u64, bytes: u64) {
        self.set_time(now_us);
        let sent_us = sent_us + START_US;
        if self.current.delivered == 0 {
            self.current.prior_in_flight = self.sk.packets_out;
        }
        self.current.delivered += 1;
        self.sk.delivered = self.sk.delivered.wrapping_add(1);
        self.sk.bytes_acked += bytes;
        let at = self.records.partition_point(|record| record.sent_us < sent_us);
        let record = self.records.get(at).copied().filter(|record| record.sent_us == sent_us);
        if let Some(record) = record
            && self.current.newest.is_none_or(|newest| newest.sent_us < record.sent_us)
        {
            self.current.newest = Some(record);
        }
    }

    /// All packets of an acknowledgement were reported; `in_flight_bytes` remain. `is_app_limited`: the
    /// application had too little data to send before.
    pub fn end_acknowledgement(&mut self, now_us: u64, in_flight_bytes: u64, is_app_limited: bool) {
        self.set_time(now_us);
        let current = std::mem::take(&mut self.current);
        let losses = std::mem::take(&mut self.losses);
        self.set_in_flight(in_flight_bytes);
        if is_app_limited {
            self.sk.app_limited = self.sk.delivered.wrapping_add(self.sk.packets_out).max(1);
        }
        let is_open = self.sk.ca_state() == CaState::Open;
        let ack_flags = if is_open { flag::CA_ACK_WIN_UPDATE } else { flag::CA_ACK_SLOWPATH };
        self.cc.in_ack_event(&mut self.sk, ack_flags);

        let mut sample =
            RateSample { prior_in_flight: current.prior_in_flight, rtt_us: -1, ..RateSample::default() };
        if let Some(newest) = current.newest {
            self.take_sample(&newest, &mut sample);
        }
        if current.delivered > 0 {
            let sample = AckSample {
                pkts_acked: current.delivered,
                rtt_us: sample.rtt_us as i32,
                in_flight: current.newest.map_or(0, |newest| newest.in_flight),
            };
            self.cc.pkts_acked(&mut self.sk, &sample);
        }
        if !is_open && current.newest.is_some_and(|newest| newest.sent_us > self.reduction_us) {
            self.end_reduction();
        }
        self.sk.complete_rate_sample(current.delivered, losses, false, &mut sample);
        self.control(current.delivered, losses, &sample);
        self.forget_old_records();
    }

    /// Packets of `lost_bytes` bytes, the last of which was sent at `sent_us`, are lost; 0: a packet arrived
    /// with a CE mark. `is_persistent`: all packets of several round trips were lost (RFC 9002, section 7.6).
    pub fn lost(&mut self, now_us: u64, sent_us: u64, lost_bytes: u64, is_persistent: bool) {
        self.set_time(now_us);
        let packets = lost_bytes.div_ceil(u64::from(self.sk.mss_cache)) as u32;
        self.losses = self.losses.saturating_add(packets);
        self.sk.lost = self.sk.lost.wrapping_add(packets);
        self.sk.packets_out = self.sk.packets_out.saturating_sub(packets);
        self.update_sequence();
        if is_persistent {
            self.enter_loss();
        } else if sent_us + START_US > self.reduction_us {
            // The controller may have been in the recovery of an earlier loss.
            if self.sk.ca_state() != CaState::Open {
                self.end_reduction();
            }
            self.enter_reduction(if lost_bytes > 0 { CaState::Recovery } else { CaState::Cwr });
        }
    }

    fn set_time(&mut self, now_us: u64) {
        let now_us = now_us + START_US;
        self.sk.tcp_mstamp = self.sk.tcp_mstamp.max(now_us);
        self.sk.tcp_clock_cache = self.sk.tcp_mstamp * 1000;
    }

    fn jiffies(&self) -> u32 {
        (self.sk.tcp_mstamp / JIFFY_US) as u32
    }

    fn set_in_flight(&mut self, bytes: u64) {
        self.sk.packets_out = bytes.div_ceil(u64::from(self.sk.mss_cache)) as u32;
        self.update_sequence();
    }

    /// Sequence numbers count whole packets, modulo 2^32.
    fn update_sequence(&mut self) {
        let of = |packets: u64| (packets as u32).wrapping_mul(self.sk.mss_cache);
        self.sk.snd_nxt = of(self.sent_packets);
        self.sk.write_seq = self.sk.snd_nxt;
        self.sk.snd_una = of(self.sent_packets.saturating_sub(u64::from(self.sk.packets_out)));
    }

    /// `tcp_cwnd_validate`.
    fn validate_window(&mut self) {
        let jiffies = self.jiffies();
        let sk = &mut self.sk;
        // The transport stops when another packet would fill the window.
        let is_limited = sk.packets_out + 1 >= sk.snd_cwnd;
        let window_over = sk.snd_una.wrapping_sub(sk.cwnd_usage_seq) as i32 >= 0;
        let is_fuller = !sk.is_cwnd_limited() && sk.packets_out > sk.max_packets_out;
        if window_over || is_limited || is_fuller {
            sk.set_is_cwnd_limited(is_limited);
            sk.max_packets_out = sk.packets_out;
            sk.cwnd_usage_seq = sk.snd_nxt;
        }
        if sk.is_cwnd_limited() {
            sk.snd_cwnd_used = 0;
            sk.snd_cwnd_stamp = jiffies;
        } else {
            sk.snd_cwnd_used = sk.snd_cwnd_used.max(sk.packets_out);
        }
    }

    /// `tcp_rate_skb_delivered` and `tcp_ack_update_rtt`.
    fn take_sample(&mut self, newest: &SendRecord, sample: &mut RateSample) {
        let now_us = self.sk.tcp_mstamp;
        let rtt_us = (now_us - newest.sent_us).max(1);
        sample.rtt_us = rtt_us as i64;
        sample.prior_delivered = newest.delivered;
        sample.prior_mstamp = newest.delivered_us;
        sample.is_app_limited = newest.is_app_limited;
        sample.last_end_seq = self.sk.snd_una;
        sample.interval_us = (newest.sent_us - newest.first_tx_us) as i64;
        self.sk.first_tx_mstamp = self.sk.first_tx_mstamp.max(newest.sent_us);
        let rtt_us = u32::try_from(rtt_us).unwrap_or(u32::MAX);
        let minimum = &mut self.sk.rtt_min.s[0];
        if rtt_us <= minimum.v {
            *minimum = crate::MinMaxSample { t: (now_us / JIFFY_US) as u32, v: rtt_us };
        }
        self.sk.estimate_rtt(rtt_us, self.sk.icsk_rto_min * JIFFY_US as u32);
        let timeout_us = u64::from(self.sk.srtt_us >> 3) + u64::from(self.sk.rttvar_us);
        self.sk.icsk_rto = timeout_us.div_ceil(JIFFY_US) as u32;
    }

    /// `tcp_enter_recovery` and `tcp_enter_cwr`.
    fn enter_reduction(&mut self, state: CaState) {
        self.reduction_us = self.sk.tcp_mstamp;
        self.sk.prior_ssthresh = self.sk.current_ssthresh();
        self.sk.undo_marker = 0;
        self.sk.begin_reduction();
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        self.set_state(state);
    }

    /// `tcp_enter_loss`.
    fn enter_loss(&mut self) {
        self.reduction_us = self.sk.tcp_mstamp;
        self.sk.prior_ssthresh = self.sk.current_ssthresh();
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        self.cc.cwnd_event(&mut self.sk, CaEvent::Loss);
        self.sk.snd_cwnd = self.sk.packets_out + 1;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.set_state(CaState::Loss);
        self.sk.high_seq = self.sk.snd_nxt;
    }

    /// `tcp_end_cwnd_reduction`, and return to `Open`.
    fn end_reduction(&mut self) {
        let was_reduced = self.sk.in_cwnd_reduction();
        self.set_state(CaState::Open);
        if !was_reduced || self.cc.has(Operation::CongControl) {
            return;
        }
        if self.sk.snd_ssthresh < INFINITE_SSTHRESH {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.cc.cwnd_event(&mut self.sk, CaEvent::CompleteCwr);
    }

    /// `tcp_set_ca_state`: the controller is notified before the socket changes.
    fn set_state(&mut self, state: CaState) {
        self.cc.set_state(&mut self.sk, state);
        self.sk.set_ca_state(state);
    }

    /// `tcp_cong_control`.
    fn control(&mut self, delivered: u32, losses: u32, sample: &RateSample) {
        let ack = self.sk.snd_una;
        if self.cc.has(Operation::CongControl) {
            let flags = match delivered {
                0 => AckFlags::default(),
                _ => AckFlags::DATA_ACKED.with(AckFlags::SND_UNA_ADVANCED),
            };
            self.cc.cong_control(&mut self.sk, ack, flags.bits(), sample);
            return;
        }
        if self.sk.in_cwnd_reduction() {
            self.sk.reduce_cwnd(delivered, losses == 0);
        } else if delivered > 0 {
            self.cc.cong_avoid(&mut self.sk, ack, delivered);
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.sk.update_pacing_rate(PACING_SLOW_START_PERCENT, PACING_AVOIDANCE_PERCENT);
    }

    fn forget_old_records(&mut self) {
        let age_us = (RECORD_ROUND_TRIPS * u64::from(self.sk.srtt_us >> 3)).max(MIN_RECORD_US);
        let oldest_us = self.sk.tcp_mstamp.saturating_sub(age_us);
        while self.records.front().is_some_and(|record| record.sent_us < oldest_us) {
            self.records.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1200;

    /// Reno; it records the calls that change its state.
    #[derive(Debug, Default)]
    struct Reno {
        calls: Vec<String>,
    }

    impl CongestionControl for Reno {
        fn name(&self) -> &str {
            "reno"
        }
        fn has(&self, _: Operation) -> bool {
            false
        }
        fn ssthresh(&mut self, sk: &mut TcpSock) -> u32 {
            self.calls.push(format!("ssthresh {:?}", sk.ca_state()));
            (sk.snd_cwnd / 2).max(2)
        }
        fn cong_avoid(&mut self, sk: &mut TcpSock, _: u32, acked: u32) {
            if sk.in_slow_start() {
                sk.snd_cwnd += acked;
            } else {
                sk.snd_cwnd_cnt += acked;
                if sk.snd_cwnd_cnt >= sk.snd_cwnd {
                    sk.snd_cwnd_cnt -= sk.snd_cwnd;
                    sk.snd_cwnd += 1;
                }
            }
        }
        fn set_state(&mut self, _: &mut TcpSock, new_state: CaState) {
            self.calls.push(format!("{new_state:?}"));
        }
        fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32 {
            sk.snd_cwnd
        }
    }

    fn driver() -> CongestionDriver<Reno> {
        CongestionDriver::new(Box::default(), PACKET as u32)
    }

    /// Sends a window at `sent_us`, and acknowledges all but `lost` packets 10 ms later. Returns the time.
    fn round(driver: &mut CongestionDriver<Reno>, sent_us: u64, lost: u64) -> u64 {
        let packets = u64::from(driver.sk().snd_cwnd);
        (0..packets).for_each(|_| driver.sent(sent_us, PACKET));
        let now_us = sent_us + 10_000;
        (0..packets - lost).for_each(|_| driver.acknowledged(now_us, sent_us, PACKET));
        driver.end_acknowledgement(now_us, lost * PACKET, false);
        if lost > 0 {
            driver.lost(now_us, sent_us, lost * PACKET, false);
        }
        now_us
    }

    #[test]
    fn the_window_doubles_until_a_loss_halves_it_for_one_round_trip() {
        let mut driver = driver();
        assert_eq!(driver.window_bytes(), 10 * PACKET);
        let now = round(&mut driver, 0, 0);
        assert_eq!((driver.sk().snd_cwnd, driver.sk().srtt_us >> 3), (20, 10_000));
        let now = round(&mut driver, now, 2);
        assert_eq!((driver.sk().ca_state(), driver.sk().snd_ssthresh), (CaState::Recovery, 19));
        // Another loss of packets that were sent before: no second reduction.
        driver.lost(now + 1, now - 10_000, PACKET, false);
        assert_eq!(driver.sk().snd_ssthresh, 19);
        driver.sent(now + 10, PACKET);
        driver.acknowledged(now + 10_010, now + 10, PACKET);
        driver.end_acknowledgement(now + 10_010, 0, false);
        assert_eq!(driver.sk().ca_state(), CaState::Open);
        assert_eq!((driver.sk().snd_cwnd, driver.ssthresh_bytes()), (19, Some(19 * PACKET)));
        assert_eq!(driver.cc.calls, ["ssthresh Open", "Recovery", "Open"]);
        assert_eq!(driver.sk().lost, 3);
    }

    #[test]
    fn persistent_congestion_leaves_one_packet_and_slow_start_follows() {
        let mut driver = driver();
        let now = round(&mut driver, 0, 0);
        (0..20).for_each(|_| driver.sent(now, PACKET));
        driver.lost(now + 900_000, now, 20 * PACKET, true);
        assert_eq!((driver.sk().snd_cwnd, driver.sk().ca_state()), (1, CaState::Loss));
        assert_eq!(driver.sk().snd_ssthresh, 10);
        let now = round(&mut driver, now + 900_001, 0);
        assert_eq!((driver.sk().snd_cwnd, driver.sk().ca_state()), (2, CaState::Open));
        round(&mut driver, now, 0);
        assert_eq!(driver.sk().snd_cwnd, 4);
    }

    #[test]
    fn rate_samples_measure_the_delivery_rate() {
        let mut driver = driver();
        // A packet each ms, acknowledged 10 ms later: 1000 packets/s.
        for at in 0..200u64 {
            let now_us = at * 1000;
            if at >= 10 {
                driver.acknowledged(now_us, now_us - 10_000, PACKET);
                driver.end_acknowledgement(now_us, 9 * PACKET, false);
            }
            driver.sent(now_us, PACKET);
        }
        let sk = driver.sk();
        let rate = f64::from(sk.rate_delivered) * 1e6 / f64::from(sk.rate_interval_us);
        assert!((950.0..1050.0).contains(&rate), "{rate}");
        assert_eq!((sk.srtt_us >> 3, sk.rtt_min.s[0].v, sk.app_limited), (10_000, 10_000, 0));
        assert_eq!(sk.packets_in_flight(), 10);
        driver.end_acknowledgement(300_000, 0, true);
        assert!(driver.sk().app_limited > 0);
    }

    #[test]
    fn records_of_old_packets_are_removed() {
        let mut driver = driver();
        for at in 0..10_000u64 {
            driver.sent(at * 1000, PACKET);
            driver.acknowledged(at * 1000 + 500, at * 1000, PACKET);
            driver.end_acknowledgement(at * 1000 + 500, 0, false);
        }
        assert!(driver.records.len() <= 1100, "{}", driver.records.len());
    }
}
