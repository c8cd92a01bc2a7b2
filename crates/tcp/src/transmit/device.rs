//! The transmit queue of the host's device, as far as the sender heeds it: `tcp_small_queue_check`, `tcp_tsq_write` and what
//! `tcp_transmit_skb` does when the queue takes nothing more (net/ipv4/tcp_output.c).
//!
//! The owner of the queue says before each call how much room there is. A packet that the queue would drop is not lost: it
//! stays in the send buffer and the window is reduced (`tcp_enter_cwr`), in Linux 2.4 as in Linux 6. What Linux 6 has besides
//! is small queues: it hands over a millisecond of its pacing rate or two packets, and goes on when one of them has left.
//!
//! Departures: 1. A probe of the window or of a lost tail, and an ACK without data, are lost at a full queue, and nothing
//! follows from that. 2. A packet has left when the link begins to send it, not when it has been sent.

use crate::{Endpoint, transmit::output::Push};

/// What the sender knows of the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Device {
    /// Packets that it takes yet; none: there is no queue, all that is handed over leaves.
    room: Option<u32>,
    /// Memory of the socket's own packets in it, bytes (`sk_wmem_alloc`).
    own_bytes: u64,
    /// Data waits until a packet has left (`TSQ_THROTTLED`).
    throttled: bool,
}

impl Endpoint {
    /// Says how many packets the device's queue takes yet, and how many of this endpoint's are in it, with how many bytes
    /// of payload. To be called before every other call, if there is a queue at all.
    pub fn set_device_queue(&mut self, room: u32, own_packets: u32, own_payload_bytes: u64) {
        let overhead = u64::from(self.behaviour.packet_overhead);
        self.tx.device.room = Some(room);
        self.tx.device.own_bytes = own_payload_bytes + u64::from(own_packets) * overhead;
    }

    /// Whether data waits for [`Self::on_device_sent`].
    #[inline]
    pub fn waits_for_device(&self) -> bool {
        self.tx.device.throttled
    }

    /// A packet of this endpoint has left the device's queue.
    pub fn on_device_sent(&mut self, now: u64) {
        self.set_clock(now);
        self.tx.device.throttled = false;
        self.send_lost_and_new();
        self.check_space();
    }

    /// `tcp_tsq_write`.
    pub(super) fn send_lost_and_new(&mut self) {
        if self.sk.lost_out > self.sk.retrans_out && self.sk.snd_cwnd > self.sk.packets_in_flight() {
            self.xmit_retransmit_queue();
        }
        self.write_xmit(Push::All);
    }

    /// Whether a packet with so many bytes of payload may be handed over now; `doublings` of the limit of small queues.
    #[inline]
    pub(super) fn device_takes(&mut self, len: u32, doublings: u32) -> bool {
        match self.tx.device.room {
            None => true,
            Some(_) if self.behaviour.small_queues && self.small_queue_is_full(len, doublings) => {
                self.tx.device.throttled = true;
                false
            }
            Some(0) => {
                self.enter_cwr();
                false
            }
            Some(_) => true,
        }
    }

    /// `tcp_small_queue_check`.
    fn small_queue_is_full(&self, len: u32, doublings: u32) -> bool {
        let sk = &self.sk;
        let two = 2 * u64::from(len + self.behaviour.packet_overhead);
        let mut limit = two.max(sk.sk_pacing_rate >> sk.sk_pacing_shift);
        if sk.sk_pacing_status == 0 {
            limit = limit.min(u64::from(self.config.limit_output_bytes));
        }
        self.tx.device.own_bytes > limit.saturating_mul(1 << doublings) && self.tx.queue.count() > 1
    }

    /// A packet was handed over.
    #[inline]
    pub(super) fn device_took(&mut self, len: u32) {
        if let Some(room) = &mut self.tx.device.room {
            *room = room.saturating_sub(1);
            self.tx.device.own_bytes += u64::from(len + self.behaviour.packet_overhead);
        }
    }
}
