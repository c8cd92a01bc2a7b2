//! Messages of sock_diag: encodes the request and parses replies (include/uapi/linux/inet_diag.h).
//!
//! The request is the older TCPDIAG_GETSOCK, because only this one returns IPv4 and IPv6 in one dump of the
//! kernel's table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{
    TcpInfo,
    socket_sample::{
        CongestionInfo, SocketAddresses, SocketCookie, SocketMemory, SocketSample, SocketState, unmapped,
    },
};

const NLMSG_HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// The kernel's table changed during the dump: connections may be missing or listed twice.
const NLM_F_DUMP_INTR: u16 = 0x10;
const TCPDIAG_GETSOCK: u16 = 18;
const REQUEST_BYTES: usize = NLMSG_HEADER + 60;
/// `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// INET_DIAG_*: attributes of a reply.
mod attribute {
    pub const INFO: u16 = 2;
    pub const VEGASINFO: u16 = 3;
    pub const CONG: u16 = 4;
    pub const TOS: u16 = 5;
    pub const TCLASS: u16 = 6;
    pub const SKMEMINFO: u16 = 7;
    pub const DCTCPINFO: u16 = 9;
    pub const BBRINFO: u16 = 16;
}

/// Mask of the requested TCP states. It excludes LISTEN, and TIME-WAIT, where the socket itself is already
/// freed.
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6) & !1;

/// Outcome of parsing one datagram of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyStatus {
    /// More datagrams follow.
    More,
    /// The reply is complete.
    Done,
    /// The reply is complete, but the kernel's table changed during the dump.
    Changed,
    /// The kernel refused with this errno.
    Refused(i32),
}

/// Encodes a request for all connections, with all attributes that the kernel can report.
pub(crate) fn request(sequence: u32) -> [u8; REQUEST_BYTES] {
    use attribute::*;
    // The numbers of BBRINFO and DCTCPINFO do not fit into the mask of 8 bits; the kernel sends them with
    // VEGASINFO.
    let extensions = [INFO, VEGASINFO, CONG, TOS, TCLASS, SKMEMINFO];
    let mask = extensions.iter().fold(0u8, |mask, number| mask | 1 << (number - 1));
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&TCPDIAG_GETSOCK.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[NLMSG_HEADER + 3] = mask;
    bytes[NLMSG_HEADER + 52..NLMSG_HEADER + 56].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}

/// Parses one datagram of the reply to request `sequence` and appends its connections to `samples`. Replies
/// to other requests and malformed messages are skipped.
pub(crate) fn parse_reply(mut bytes: &[u8], sequence: u32, samples: &mut Vec<SocketSample>) -> ReplyStatus {
    let mut changed = false;
    while let Some(header) = bytes.get(..NLMSG_HEADER) {
        let length = u32_at(header, 0).map_or(0, |n| n as usize);
        let Some(payload) = bytes.get(NLMSG_HEADER..length) else { break };
        if u32_at(header, 8) == Some(sequence) {
            changed |= u16_at(header, 6).is_some_and(|flags| flags & NLM_F_DUMP_INTR != 0);
            match u16_at(header, 4) {
                // The last message of a dump contains the dump's result, which is negative for an error.
                Some(NLMSG_DONE) => match u32_at(payload, 0).map_or(0, |n| n as i32) {
                    error @ ..0 => return ReplyStatus::Refused(error.wrapping_neg()),
                    _ => return if changed { ReplyStatus::Changed } else { ReplyStatus::Done },
                },
                Some(NLMSG_ERROR) => {
                    return ReplyStatus::Refused(u32_at(payload, 0).map_or(0, |n| (n as i32).wrapping_neg()));
                }
                _ => samples.extend(parse_connection(payload)),
            }
        }
        bytes = bytes.get(aligned(length)..).unwrap_or(&[]);
    }
    ReplyStatus::More
}

/// Parses the payload of one message; `None` if it is too short, or neither IPv4 nor IPv6.
fn parse_connection(payload: &[u8]) -> Option<SocketSample> {
    let message = payload.get(..MESSAGE_BYTES)?;
    let family = message[0];
    let port = |at| u16::from_be_bytes([message[at], message[at + 1]]);
    let addresses = SocketAddresses {
        local: SocketAddr::new(address(family, &message[8..24])?, port(4)),
        peer: SocketAddr::new(address(family, &message[24..40])?, port(6)),
    };
    let mut sample = SocketSample {
        cookie: SocketCookie(u64::from(u32_at(message, 44)?) | u64::from(u32_at(message, 48)?) << 32),
        addresses,
        state: SocketState(message[1]),
        rqueue_bytes: u32_at(message, 56)?,
        wqueue_bytes: u32_at(message, 60)?,
        uid: u32_at(message, 64)?,
        inode: u32_at(message, 68)?,
        tos: None,
        congestion: None,
        congestion_info: None,
        memory: None,
        info: TcpInfo::from_bytes(&[]),
    };
    let mut attributes = &payload[MESSAGE_BYTES..];
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let Some(value) = attributes.get(4..usize::from(length)) else { break };
        set_attribute(&mut sample, kind, value);
        attributes = attributes.get(aligned(usize::from(length))..).unwrap_or(&[]);
    }
    Some(sample)
}

fn set_attribute(sample: &mut SocketSample, kind: u16, value: &[u8]) {
    match kind {
        attribute::INFO => sample.info = TcpInfo::from_bytes(value),
        attribute::CONG => {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            sample.congestion = Some(String::from_utf8_lossy(name).into_owned());
        }
        attribute::TOS => sample.tos = value.first().copied(),
        // IPv6 sockets also report TOS, which applies to IPv4 only; the later attribute TCLASS replaces it.
        attribute::TCLASS => sample.tos = value.first().copied(),
        attribute::SKMEMINFO => {
            let words: Vec<u32> = (0..value.len() / 4).filter_map(|i| u32_at(value, 4 * i)).collect();
            sample.memory = SocketMemory::from_words(&words);
        }
        attribute::VEGASINFO => sample.congestion_info = parse_vegas(value),
        attribute::BBRINFO => sample.congestion_info = parse_bbr(value),
        attribute::DCTCPINFO => sample.congestion_info = parse_dctcp(value),
        _ => {}
    }
}

/// A gain of 1 in `struct tcp_bbr_info` (`BBR_UNIT`, net/ipv4/tcp_bbr.c).
const BBR_GAIN_UNIT: f64 = 256.0;
/// A fraction of 1 in `struct tcp_dctcp_info` (`DCTCP_MAX_ALPHA`, net/ipv4/tcp_dctcp.h).
const DCTCP_ALPHA_UNIT: f64 = 1024.0;

fn parse_vegas(value: &[u8]) -> Option<CongestionInfo> {
    Some(CongestionInfo::Vegas {
        enabled: u32_at(value, 0)?,
        rtt_count: u32_at(value, 4)?,
        rtt_us: u32_at(value, 8)?,
        min_rtt_us: u32_at(value, 12)?,
    })
}

fn parse_bbr(value: &[u8]) -> Option<CongestionInfo> {
    Some(CongestionInfo::Bbr {
        bandwidth_bps: (u64::from(u32_at(value, 0)?) | u64::from(u32_at(value, 4)?) << 32).saturating_mul(8),
        min_rtt_us: u32_at(value, 8)?,
        pacing_gain: f64::from(u32_at(value, 12)?) / BBR_GAIN_UNIT,
        cwnd_gain: f64::from(u32_at(value, 16)?) / BBR_GAIN_UNIT,
    })
}

fn parse_dctcp(value: &[u8]) -> Option<CongestionInfo> {
    Some(CongestionInfo::Dctcp {
        enabled: u16_at(value, 0)?,
        ce_state: u16_at(value, 2)?,
        alpha: f64::from(u32_at(value, 4)?) / DCTCP_ALPHA_UNIT,
        marked_bytes: u32_at(value, 8)?,
        total_bytes: u32_at(value, 12)?,
    })
}

fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?).into()),
        AF_INET6 => Some(unmapped(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())),
        _ => None,
    }
}

fn aligned(length: usize) -> usize {
    length.max(1).div_ceil(4) * 4
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((NLMSG_HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes
    }

    fn connection() -> Vec<u8> {
        let mut payload = vec![0; MESSAGE_BYTES];
        payload[..2].copy_from_slice(&[AF_INET, 1]);
        payload[4..8].copy_from_slice(&[0x14, 0x51, 0x9c, 0x40]);
        payload[8..12].copy_from_slice(&[10, 0, 0, 1]);
        payload[24..28].copy_from_slice(&[10, 0, 0, 2]);
        payload[44..48].copy_from_slice(&7u32.to_ne_bytes());
        payload[60..64].copy_from_slice(&1448u32.to_ne_bytes());
        payload.extend([10, 0, 4, 0]);
        payload.extend(b"cubic\0\0\0");
        payload.extend([20, 0, 16, 0]);
        payload[MESSAGE_BYTES + 12..MESSAGE_BYTES + 14].copy_from_slice(&24u16.to_ne_bytes());
        for word in [1_250_000u32, 0, 20_000, 739, 512] {
            payload.extend(word.to_ne_bytes());
        }
        payload
    }

    #[test]
    fn a_connection_is_parsed_with_its_attributes() {
        let mut samples = Vec::new();
        let mut bytes = message(TCPDIAG_GETSOCK, 3, &connection());
        bytes.extend(message(TCPDIAG_GETSOCK, 2, &connection()));
        bytes.extend(message(NLMSG_DONE, 3, &[0; 4]));
        assert_eq!(parse_reply(&bytes, 3, &mut samples), ReplyStatus::Done);
        let [sample] = samples.as_slice() else { panic!("{samples:?}") };
        assert_eq!(sample.addresses.to_string(), "10.0.0.1:5201 > 10.0.0.2:40000");
        assert_eq!((sample.cookie, sample.wqueue_bytes), (SocketCookie(7), 1448));
        assert_eq!(sample.congestion.as_deref(), Some("cubic"));
        let expected = CongestionInfo::Bbr {
            bandwidth_bps: 10_000_000,
            min_rtt_us: 20_000,
            pacing_gain: 739.0 / 256.0,
            cwnd_gain: 2.0,
        };
        assert_eq!(sample.congestion_info, Some(expected));
        assert_eq!(sample.info.snd_cwnd(), None, "there is no INET_DIAG_INFO attribute");
    }

    #[test]
    fn a_refusal_contains_the_errno() {
        let bytes = message(NLMSG_ERROR, 1, &(-1i32).to_ne_bytes());
        assert_eq!(parse_reply(&bytes, 1, &mut Vec::new()), ReplyStatus::Refused(1));
        // As from a kernel without tcp_diag.
        let bytes = message(NLMSG_DONE, 1, &(-2i32).to_ne_bytes());
        assert_eq!(parse_reply(&bytes, 1, &mut Vec::new()), ReplyStatus::Refused(2));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), tail in 0usize..120) {
            parse_reply(&bytes, 1, &mut Vec::new());
            let mut whole = message(TCPDIAG_GETSOCK, 1, &connection());
            whole.truncate(whole.len().saturating_sub(tail));
            whole.extend(&bytes);
            parse_reply(&whole, 1, &mut Vec::new());
            parse_connection(&bytes);
        }
    }
}
