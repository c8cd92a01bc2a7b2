//! The maximum rate at which a host can process the packets of one flow, as a closed form of its processing
//! costs.
//!
//! A data packet takes c seconds of processor time, including its share of the ACKs in the other direction (a
//! per data packet). An interrupt takes i seconds and announces m packets of its direction. The processor is
//! always busy at the rate r of data packets for which
//!
//! ```text
//! r (c + i / m_data(r) + a i / m_acks(a r)) = 1,   m(r) = 1 + r delay
//! ```
//!
//! An interrupt announces the packet that started its delay and the packets that arrive during the delay, or
//! fewer if the card limits them. The left side grows with r, so the equation has one solution, which
//! bisection finds.

use units::BitRate;

/// Number of bisection steps; each halves the error of the rate.
const BISECTIONS: u32 = 100;

/// A host's processing costs of packets; times are in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostCost {
    /// Processor time of a packet; a super-packet counts as one packet.
    pub per_packet: f64,
    /// Processor time of each frame, in addition.
    pub per_frame: f64,
    /// Processor time of each byte of IP, in addition.
    pub per_byte: f64,
    /// Processor time of an interrupt.
    pub per_interrupt: f64,
    /// Moderation of the interrupts for received packets.
    pub rx: InterruptModeration,
    /// Moderation of the interrupts for sent packets.
    pub tx: InterruptModeration,
    /// The bus, which all packets cross.
    pub bus: Option<BitRate>,
}

/// When a network card raises an interrupt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct InterruptModeration {
    /// Seconds from the first packet to the interrupt.
    pub delay: f64,
    /// Number of frames that raise the interrupt before the delay is over; `None` if there is no such limit.
    pub frames: Option<u32>,
}

/// The direction of a flow's data at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRole {
    /// It sends the data.
    Sender,
    /// It receives the data.
    Receiver,
}

/// The packets of a flow as one of its hosts handles them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketStream {
    /// Frames in a data packet; a packet with more than one is a super-packet.
    pub frames: u32,
    /// Packets that the receiver's stack handles for each data packet: more than 1 if GRO merges fewer frames
    /// than a data packet has.
    pub received_as: u32,
    /// Payload of a frame, bytes.
    pub payload: u32,
    /// IP bytes of a frame.
    pub frame_bytes: u32,
    /// ACKs per data packet.
    pub acks: f64,
    /// IP bytes of an ACK.
    pub ack_bytes: u32,
}

/// The resource that limits a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostLimit {
    /// Its processor.
    Processor,
    /// Its bus.
    Bus,
}

impl HostCost {
    /// The goodput at which the host is busy all the time, bit/s, and its busiest resource; `None` if packets
    /// cost no time.
    pub fn ceiling_bps(&self, role: HostRole, stream: &PacketStream) -> Option<(f64, HostLimit)> {
        let payload_bits = f64::from(stream.frames) * f64::from(stream.payload) * 8.0;
        let processor =
            self.packet_rate(role, stream).map(|rate| (rate * payload_bits, HostLimit::Processor));
        let bus =
            self.bus.map(|bus| (bus.as_f64() / 8.0 / self.bus_bytes(stream) * payload_bits, HostLimit::Bus));
        [processor, bus].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Processor seconds that a data packet costs at `rate` packets a second.
    pub fn seconds_per_packet(&self, role: HostRole, stream: &PacketStream, rate: f64) -> f64 {
        let bytes = f64::from(stream.frames) * f64::from(stream.frame_bytes);
        let handled = if role == HostRole::Receiver { stream.received_as } else { 1 };
        let data = f64::from(handled) * self.per_packet
            + f64::from(stream.frames) * self.per_frame
            + bytes * self.per_byte;
        let ack = self.per_packet + self.per_frame + f64::from(stream.ack_bytes) * self.per_byte;
        let (data_moderation, ack_moderation) = match role {
            HostRole::Sender => (self.tx, self.rx),
            HostRole::Receiver => (self.rx, self.tx),
        };
        let interrupts = 1.0 / data_moderation.packets(rate, stream.frames)
            + stream.acks / ack_moderation.packets(stream.acks * rate, 1);
        data + stream.acks * ack + interrupts * self.per_interrupt
    }

    /// Data packets a second at which the processor is busy all the time.
    fn packet_rate(&self, role: HostRole, stream: &PacketStream) -> Option<f64> {
        let seconds = |rate: f64| self.seconds_per_packet(role, stream, rate);
        let (mut low, mut high) = (0.0, 1.0);
        while high * seconds(high) < 1.0 {
            high *= 2.0;
            if high > 1e15 {
                return None;
            }
        }
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            if middle * seconds(middle) < 1.0 { low = middle } else { high = middle }
        }
        Some(high)
    }

    fn bus_bytes(&self, stream: &PacketStream) -> f64 {
        f64::from(stream.frames) * f64::from(stream.frame_bytes) + stream.acks * f64::from(stream.ack_bytes)
    }
}

impl InterruptModeration {
    /// Packets of `frames` frames that an interrupt announces at `rate` packets a second.
    fn packets(&self, rate: f64, frames: u32) -> f64 {
        let max_packets = self.frames.map_or(f64::INFINITY, |limit| f64::from(limit.div_ceil(frames.max(1))));
        (1.0 + rate * self.delay).min(max_packets).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1500-byte frames with TCP timestamps, one ACK for two.
    const SINGLE: PacketStream = PacketStream {
        frames: 1,
        received_as: 1,
        payload: 1448,
        frame_bytes: 1500,
        acks: 0.5,
        ack_bytes: 52,
    };

    fn bps(cost: &HostCost, stream: &PacketStream) -> f64 {
        cost.ceiling_bps(HostRole::Receiver, stream).unwrap().0
    }

    #[test]
    fn without_interrupts_the_rate_is_the_inverse_of_the_cost() {
        let cost = HostCost { per_packet: 4e-6, per_byte: 3e-9, ..HostCost::default() };
        let seconds = 4e-6 + 1500.0 * 3e-9 + 0.5 * (4e-6 + 52.0 * 3e-9);
        assert!((bps(&cost, &SINGLE) / (1448.0 * 8.0 / seconds) - 1.0).abs() < 1e-9);
        assert_eq!(HostCost::default().ceiling_bps(HostRole::Sender, &SINGLE), None);
    }

    /// With a delay alone: r c + r i / (1 + r T) = 1, a quadratic equation.
    #[test]
    fn moderated_interrupts_solve_the_quadratic() {
        let (c, i, t) = (8.5e-6, 5e-6, 64e-6);
        let stream = PacketStream { acks: 0.0, ..SINGLE };
        let rx = InterruptModeration { delay: t, frames: None };
        let cost = HostCost { per_packet: c, per_interrupt: i, rx, ..HostCost::default() };
        let (a, b) = (c * t, c + i - t);
        let rate = (-b + (b * b + 4.0 * a).sqrt()) / (2.0 * a);
        assert!((bps(&cost, &stream) / (rate * 1448.0 * 8.0) - 1.0).abs() < 1e-9);
        // At most four frames per interrupt: each frame costs a quarter of an interrupt.
        let rx = InterruptModeration { delay: 1.0, frames: Some(4) };
        let limited = HostCost { rx, ..cost };
        assert!((bps(&limited, &stream) * (c + i / 4.0) / (1448.0 * 8.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_bus_limits_a_fast_processor() {
        let cost = HostCost { per_packet: 1e-9, bus: Some(BitRate(1_000_000_000)), ..HostCost::default() };
        let (bps, limit) = cost.ceiling_bps(HostRole::Sender, &SINGLE).unwrap();
        assert_eq!(limit, HostLimit::Bus);
        assert!((bps / (1e9 * 1448.0 / 1526.0) - 1.0).abs() < 1e-9, "{bps}");
    }
}
