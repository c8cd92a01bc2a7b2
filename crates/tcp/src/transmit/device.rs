//! The transmit queue of the host's device as the sender sees it: `tcp_small_queue_check`, `tcp_tsq_write`
//! and the handling of a full queue in `tcp_transmit_skb` (net/ipv4/tcp_output.c).
//!
//! The owner of the queue reports the free space before each call. A packet that the queue would drop is not
//! lost: it stays in the send buffer, and the window is reduced (`tcp_enter_cwr`), in Linux 2.4 and in Linux
//! 6. Linux 6 also has TCP small queues: it queues two packets or a millisecond of its pacing rate, and
//! continues when one of the packets has left. Without `local_congestion` the window stays as it is, and the
//! next ACK or timer tries again, in Linux 2.4 as web100's `WAD_IFQ` has it.
//!
//! Differences from the kernel: 1. A window probe, a tail loss probe and an ACK without data are lost at a
//! full queue, without a reaction. 2. A packet leaves when the link starts to send it, not when it has been
//! sent.

use super::Sender;
use crate::{connection::Connection, transmit::output::Push};

/// The queue as last reported.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Device {
    /// Free space, packets; none: there is no queue, and every packet leaves at once.
    free_packets: Option<u32>,
    /// Memory of the socket's own packets in it, bytes (`sk_wmem_alloc`).
    own_bytes: u64,
    /// Data waits until a packet leaves (`TSQ_THROTTLED`).
    throttled: bool,
}

impl Sender {
    /// Sets the free space of the device's queue, and the share of this endpoint in the queue.
    pub(crate) fn set_device_queue(
        &mut self,
        conn: &Connection,
        free_packets: u32,
        own_packets: u32,
        own_payload_bytes: u64,
    ) {
        let overhead = u64::from(conn.behaviour.packet_overhead);
        self.device.free_packets = Some(free_packets);
        self.device.own_bytes = own_payload_bytes + u64::from(own_packets) * overhead;
    }

    /// Whether data waits for [`Self::on_device_sent`].
    #[inline]
    pub(crate) fn waits_for_device(&self) -> bool {
        self.device.throttled
    }

    /// A packet of this endpoint left the device's queue.
    pub(crate) fn on_device_sent(&mut self, conn: &mut Connection) {
        self.device.throttled = false;
        self.send_lost_and_new(conn);
        self.check_space(conn);
    }

    /// `tcp_tsq_write`.
    pub(super) fn send_lost_and_new(&mut self, conn: &mut Connection) {
        if conn.sk.lost_out > conn.sk.retrans_out && conn.sk.snd_cwnd > conn.sk.packets_in_flight() {
            self.xmit_retransmit_queue(conn);
        }
        self.write_xmit(conn, Push::All);
    }

    /// Whether the device takes a packet with `len` bytes of payload now. `doublings` is the shift of the
    /// small queue's limit.
    #[inline]
    pub(super) fn device_takes(&mut self, conn: &mut Connection, len: u32, doublings: u32) -> bool {
        match self.device.free_packets {
            None => true,
            Some(_) if conn.behaviour.small_queues && self.small_queue_is_full(conn, len, doublings) => {
                self.device.throttled = true;
                false
            }
            Some(0) => {
                if conn.config.local_congestion {
                    conn.enter_cwr();
                }
                false
            }
            Some(_) => true,
        }
    }

    /// `tcp_small_queue_check`.
    fn small_queue_is_full(&self, conn: &Connection, len: u32, doublings: u32) -> bool {
        let sk = &conn.sk;
        let two = 2 * u64::from(len + conn.behaviour.packet_overhead);
        let mut limit = two.max(sk.sk_pacing_rate >> sk.sk_pacing_shift);
        if sk.sk_pacing_status == 0 {
            limit = limit.min(u64::from(conn.config.limit_output_bytes));
        }
        self.device.own_bytes > limit.saturating_mul(1 << doublings) && self.queue.count() > 1
    }

    /// Accounts for a packet passed to the device.
    #[inline]
    pub(super) fn device_took(&mut self, conn: &mut Connection, len: u32) {
        if let Some(free_packets) = &mut self.device.free_packets {
            *free_packets = free_packets.saturating_sub(1);
            self.device.own_bytes += u64::from(len + conn.behaviour.packet_overhead);
        }
    }
}
