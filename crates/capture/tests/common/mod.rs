//! Hand-made packets and files.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::net::Ipv4Addr;

pub const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 40_000);
pub const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 5201);
pub const MS: u64 = 1_000_000;
/// Start of the captures, nanoseconds since 1970.
pub const START_NS: u64 = 1_700_000_000_000_000_000;

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;
const ECE: u8 = 64;

/// A TCP segment of the client or the server.
#[derive(Clone)]
pub struct Tcp {
    from_client: bool,
    id: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    payload: usize,
}

impl Tcp {
    pub fn client(seq: u32, ack: u32, payload: usize) -> Tcp {
        Tcp { from_client: true, id: 0, seq, ack, flags: ACK, window: 1000, options: Vec::new(), payload }
    }

    pub fn server(seq: u32, ack: u32, payload: usize) -> Tcp {
        Tcp { from_client: false, ..Tcp::client(seq, ack, payload) }
    }

    /// Makes it a SYN or SYN-ACK with an MSS of 1460 and this window scale.
    pub fn syn(mut self, shift: u8, is_syn_ack: bool) -> Tcp {
        self.flags = if is_syn_ack { SYN | ACK } else { SYN };
        self.options = vec![2, 4, 0x05, 0xb4, 1, 3, 3, shift];
        self
    }

    pub fn fin(mut self) -> Tcp {
        self.flags |= FIN;
        self
    }

    /// Sets the ECN-echo flag.
    pub fn marked(mut self) -> Tcp {
        self.flags |= ECE;
        self
    }

    /// Sets the identification of the IPv4 packet.
    pub fn id(self, id: u16) -> Tcp {
        Tcp { id, ..self }
    }

    pub fn window(self, window: u16) -> Tcp {
        Tcp { window, ..self }
    }

    pub fn sack(mut self, from: u32, to: u32) -> Tcp {
        self.options = [&[1, 1, 5, 10][..], &from.to_be_bytes(), &to.to_be_bytes()].concat();
        self
    }

    pub fn timestamps(mut self, value: u32, echo: u32) -> Tcp {
        self.options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
        self
    }

    /// The segment in an IPv4 packet.
    pub fn ip(&self) -> Vec<u8> {
        let (from, to) = if self.from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let header = 20 + self.options.len();
        let total = (20 + header + self.payload) as u16;
        let mut ip = vec![0x45, 0];
        ip.extend(total.to_be_bytes());
        ip.extend(self.id.to_be_bytes());
        ip.extend([0x40, 0, 64, 6, 0, 0]);
        ip.extend(from.0.octets());
        ip.extend(to.0.octets());
        ip.extend(from.1.to_be_bytes());
        ip.extend(to.1.to_be_bytes());
        ip.extend(self.seq.to_be_bytes());
        ip.extend(self.ack.to_be_bytes());
        ip.extend([(header / 4) as u8 * 16, self.flags]);
        ip.extend(self.window.to_be_bytes());
        ip.extend([0; 4]);
        ip.extend(&self.options);
        ip.resize(ip.len() + self.payload, b'x');
        ip
    }
}

/// An Ethernet frame with this IP packet.
pub fn ethernet(ip: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[0x08, 0x00], ip].concat()
}

/// A little-endian pcap file of Ethernet frames, with timestamps in nanoseconds. Times are relative to
/// [`START_NS`]; each frame is truncated to `snaplen` bytes.
pub fn pcap(frames: &[(u64, Vec<u8>)], snaplen: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (offset_ns, frame) in frames {
        let time_ns = START_NS + offset_ns;
        let words = [
            time_ns / 1_000_000_000,
            time_ns % 1_000_000_000,
            frame.len().min(snaplen) as u64,
            frame.len() as u64,
        ];
        words.iter().for_each(|word| file.extend((*word as u32).to_le_bytes()));
        file.extend(&frame[..frame.len().min(snaplen)]);
    }
    file
}

/// One pcapng block.
pub fn block(kind: u32, mut content: Vec<u8>, order: fn(u32) -> [u8; 4]) -> Vec<u8> {
    content.resize(content.len().next_multiple_of(4), 0);
    let len = order(content.len() as u32 + 12);
    [&order(kind)[..], &len, &content, &len].concat()
}
