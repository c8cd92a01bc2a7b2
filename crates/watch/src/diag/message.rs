//! The messages of sock_diag: the request as bytes, and what is in an answer (include/uapi/linux/inet_diag.h).
//!
//! The request is the older one (TCPDIAG_GETSOCK), because it alone asks for IPv4 and IPv6 in one walk of the kernel's table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{
    TcpInfo,
    connection::{CongestionInfo, Cookie, Ends, Look, Memory, State, plain},
};

const NLMSG_HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// The kernel's table changed while it was told: some may be missing or double.
const NLM_F_DUMP_INTR: u16 = 0x10;
const TCPDIAG_GETSOCK: u16 = 18;
const REQUEST_BYTES: usize = NLMSG_HEADER + 60;
/// `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// INET_DIAG_*: attributes of an answer.
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

/// Connections only: neither those that listen nor those in TIME-WAIT, which are no sockets any more.
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6) & !1;

/// What became of a part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more.
    More,
    /// That was all.
    Done,
    /// That was all, and the table changed meanwhile.
    Changed,
    /// The kernel refused with this errno.
    Refused(i32),
}

/// The request for all connections with all that the kernel tells, as bytes.
pub(crate) fn request(sequence: u32) -> [u8; REQUEST_BYTES] {
    use attribute::*;
    // BBRINFO and DCTCPINFO have numbers too large to ask for and come with VEGASINFO.
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

/// Reads one datagram of an answer to request `sequence`. Messages of other requests, and what is malformed, are left out.
pub(crate) fn read(mut bytes: &[u8], sequence: u32, looks: &mut Vec<Look>) -> Progress {
    let mut changed = false;
    while let Some(header) = bytes.get(..NLMSG_HEADER) {
        let length = u32_at(header, 0).map_or(0, |n| n as usize);
        let Some(payload) = bytes.get(NLMSG_HEADER..length) else { break };
        if u32_at(header, 8) == Some(sequence) {
            changed |= u16_at(header, 6).is_some_and(|flags| flags & NLM_F_DUMP_INTR != 0);
            match u16_at(header, 4) {
                Some(NLMSG_DONE) => return if changed { Progress::Changed } else { Progress::Done },
                Some(NLMSG_ERROR) => return Progress::Refused(u32_at(payload, 0).map_or(0, |n| -(n as i32))),
                _ => looks.extend(parse(payload)),
            }
        }
        bytes = bytes.get(aligned(length)..).unwrap_or(&[]);
    }
    Progress::More
}

/// A connection of the payload of one message; `None` where it is none of TCP's.
fn parse(payload: &[u8]) -> Option<Look> {
    let message = payload.get(..MESSAGE_BYTES)?;
    let family = message[0];
    let port = |at| u16::from_be_bytes([message[at], message[at + 1]]);
    let ends = Ends {
        local: SocketAddr::new(address(family, &message[8..24])?, port(4)),
        peer: SocketAddr::new(address(family, &message[24..40])?, port(6)),
    };
    let mut look = Look {
        cookie: Cookie(u64::from(u32_at(message, 44)?) | u64::from(u32_at(message, 48)?) << 32),
        ends,
        state: State(message[1]),
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
    let mut rest = &payload[MESSAGE_BYTES..];
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let Some(value) = rest.get(4..usize::from(length)) else { break };
        take(&mut look, kind, value);
        rest = rest.get(aligned(usize::from(length))..).unwrap_or(&[]);
    }
    Some(look)
}

fn take(look: &mut Look, kind: u16, value: &[u8]) {
    match kind {
        attribute::INFO => look.info = TcpInfo::from_bytes(value),
        attribute::CONG => {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            look.congestion = Some(String::from_utf8_lossy(name).into_owned());
        }
        attribute::TOS => look.tos = value.first().copied(),
        // Of an IPv6 socket, whose TOS is for IPv4 alone.
        attribute::TCLASS => look.tos = value.first().copied(),
        attribute::SKMEMINFO => {
            let words: Vec<u32> = (0..value.len() / 4).filter_map(|i| u32_at(value, 4 * i)).collect();
            look.memory = Memory::from_words(&words);
        }
        attribute::VEGASINFO => look.congestion_info = vegas(value),
        attribute::BBRINFO => look.congestion_info = bbr(value),
        attribute::DCTCPINFO => look.congestion_info = dctcp(value),
        _ => {}
    }
}

fn vegas(value: &[u8]) -> Option<CongestionInfo> {
    Some(CongestionInfo::Vegas {
        enabled: u32_at(value, 0)?,
        rtt_count: u32_at(value, 4)?,
        rtt_us: u32_at(value, 8)?,
        min_rtt_us: u32_at(value, 12)?,
    })
}

fn bbr(value: &[u8]) -> Option<CongestionInfo> {
    Some(CongestionInfo::Bbr {
        bandwidth: u64::from(u32_at(value, 0)?) | u64::from(u32_at(value, 4)?) << 32,
        min_rtt_us: u32_at(value, 8)?,
        pacing_gain: u32_at(value, 12)?,
        cwnd_gain: u32_at(value, 16)?,
    })
}

fn dctcp(value: &[u8]) -> Option<CongestionInfo> {
    Some(CongestionInfo::Dctcp {
        enabled: u16_at(value, 0)?,
        ce_state: u16_at(value, 2)?,
        alpha: u32_at(value, 4)?,
        marked_bytes: u32_at(value, 8)?,
        total_bytes: u32_at(value, 12)?,
    })
}

fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?).into()),
        AF_INET6 => Some(plain(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())),
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
    fn a_connection_is_read_with_its_attributes() {
        let mut looks = Vec::new();
        let mut bytes = message(TCPDIAG_GETSOCK, 3, &connection());
        bytes.extend(message(TCPDIAG_GETSOCK, 2, &connection()));
        bytes.extend(message(NLMSG_DONE, 3, &[0; 4]));
        assert_eq!(read(&bytes, 3, &mut looks), Progress::Done);
        let [look] = looks.as_slice() else { panic!("{looks:?}") };
        assert_eq!(look.ends.to_string(), "10.0.0.1:5201 > 10.0.0.2:40000");
        assert_eq!((look.cookie, look.wqueue_bytes), (Cookie(7), 1448));
        assert_eq!(look.congestion.as_deref(), Some("cubic"));
        let expected = CongestionInfo::Bbr {
            bandwidth: 1_250_000,
            min_rtt_us: 20_000,
            pacing_gain: 739,
            cwnd_gain: 512,
        };
        assert_eq!(look.congestion_info, Some(expected));
        assert_eq!(look.info.snd_cwnd(), None, "nothing was told");
    }

    #[test]
    fn a_refusal_is_an_error_number() {
        let bytes = message(NLMSG_ERROR, 1, &(-1i32).to_ne_bytes());
        assert_eq!(read(&bytes, 1, &mut Vec::new()), Progress::Refused(1));
    }

    proptest! {
        #[test]
        fn garbage_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), tail in 0usize..120) {
            read(&bytes, 1, &mut Vec::new());
            let mut whole = message(TCPDIAG_GETSOCK, 1, &connection());
            whole.truncate(whole.len().saturating_sub(tail));
            whole.extend(&bytes);
            read(&whole, 1, &mut Vec::new());
            parse(&bytes);
        }
    }
}
