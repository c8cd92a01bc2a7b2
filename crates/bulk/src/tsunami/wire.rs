//! Tsunami's control messages and datagram headers, protocol revision 2006-10-25, as the published client and
//! server exchange them. All fields are big-endian.
//!
//! ```text
//! datagram    block (32, from 1)   type (16: 'O', 'R', 'X')   the block's bytes
//! request     type (16)   padding (16)   block (32)   error rate (32)
//! parameters  block size (32)   target rate (32)   error threshold (32)   slower n/d, faster n/d (16 each)
//! reply       file size (64)   block size (32)   blocks (32)   time (32)
//! ```
//!
//! A request is a C structure sent as it is in memory, hence the padding.

use md5::{Digest, Md5};

/// The protocol revision.
pub const REVISION: u32 = 0x2006_1025;
/// TCP port of servers.
pub const PORT: u16 = 46224;
/// The secret that the published programs use by default; it protects nothing.
pub const DEFAULT_SECRET: &[u8] = b"kitten";
/// Bytes of a datagram's header.
pub const HEADER_BYTES: usize = 6;
/// Bytes of a request.
pub const REQUEST_BYTES: usize = 12;
/// Bytes of the challenge.
pub const CHALLENGE_BYTES: usize = 64;
/// Bytes of the proof.
pub const PROOF_BYTES: usize = 16;
/// Bytes of the client's parameters.
pub const PARAMETER_BYTES: usize = 20;
/// Bytes of the server's reply.
pub const REPLY_BYTES: usize = 20;
/// The largest block.
pub const MAX_BLOCK_BYTES: u32 = 65_530;
/// The longest file name, bytes.
pub const MAX_NAME_BYTES: usize = 1023;

/// Why a block is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// For the first time, or again after a restart.
    Original,
    /// The client requested it.
    Retransmission,
    /// It is the last block of the file.
    Last,
}

impl BlockKind {
    fn code(self) -> u16 {
        u16::from(match self {
            BlockKind::Original => b'O',
            BlockKind::Retransmission => b'R',
            BlockKind::Last => b'X',
        })
    }
}

/// A datagram's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Block number, from 1.
    pub block: u32,
    /// Why the block is sent.
    pub kind: BlockKind,
}

impl Header {
    /// The header's bytes; the block follows.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.block.to_be_bytes());
        bytes[4..].copy_from_slice(&self.kind.code().to_be_bytes());
        bytes
    }

    /// Reads a datagram: its header and its block.
    pub fn decode(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (header, block) = bytes.split_at_checked(HEADER_BYTES)?;
        let kind = match be16(header, 4)? {
            0x4f => BlockKind::Original,
            0x52 => BlockKind::Retransmission,
            0x58 => BlockKind::Last,
            _ => return None,
        };
        Some((Header { block: be32(header, 0)?, kind }, block))
    }
}

/// A request of the client while blocks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Retransmit this block.
    Retransmit(u32),
    /// Continue from this block.
    Restart(u32),
    /// The file is complete.
    Stop,
    /// The error rate, in 1/1000 %.
    ErrorRate(u32),
}

impl Request {
    /// The request's bytes.
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        let (kind, block, rate) = match self {
            Request::Retransmit(block) => (0u16, block, 0),
            Request::Restart(block) => (1, block, 0),
            Request::Stop => (2, 0, 0),
            Request::ErrorRate(rate) => (3, 0, rate),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..2].copy_from_slice(&kind.to_be_bytes());
        bytes[4..8].copy_from_slice(&block.to_be_bytes());
        bytes[8..].copy_from_slice(&rate.to_be_bytes());
        bytes
    }

    /// Reads a request; `None` if its type is unknown or bytes are missing.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let (block, rate) = (be32(bytes, 4)?, be32(bytes, 8)?);
        match be16(bytes, 0)? {
            0 => Some(Request::Retransmit(block)),
            1 => Some(Request::Restart(block)),
            2 => Some(Request::Stop),
            3 => Some(Request::ErrorRate(rate)),
            _ => None,
        }
    }
}

/// The client's parameters of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of a block; the last block is padded.
    pub block_bytes: u32,
    /// The highest rate of blocks, bit/s of file data.
    pub target_bps: u32,
    /// The server slows down above this error rate, in 1/1000 %.
    pub error_threshold: u32,
    /// The delay between blocks is multiplied by up to this fraction to slow down.
    pub slower: (u16, u16),
    /// The delay between blocks is multiplied by this fraction to speed up.
    pub faster: (u16, u16),
}

impl Default for Parameters {
    /// Those of the published client, with 650 Mb/s.
    fn default() -> Self {
        Parameters {
            block_bytes: 1024,
            target_bps: 650_000_000,
            error_threshold: 7500,
            slower: (25, 24),
            faster: (5, 6),
        }
    }
}

impl Parameters {
    /// The parameters' bytes.
    pub fn encode(self) -> [u8; PARAMETER_BYTES] {
        let mut bytes = [0; PARAMETER_BYTES];
        for (i, value) in [self.block_bytes, self.target_bps, self.error_threshold].into_iter().enumerate() {
            bytes[i * 4..i * 4 + 4].copy_from_slice(&value.to_be_bytes());
        }
        let ratios = [self.slower.0, self.slower.1, self.faster.0, self.faster.1];
        for (i, value) in ratios.into_iter().enumerate() {
            bytes[12 + i * 2..14 + i * 2].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Reads parameters; `None` if one is impossible.
    pub fn decode(bytes: &[u8]) -> Option<Parameters> {
        let parameters = Parameters {
            block_bytes: be32(bytes, 0)?,
            target_bps: be32(bytes, 4)?,
            error_threshold: be32(bytes, 8)?,
            slower: (be16(bytes, 12)?, be16(bytes, 14)?),
            faster: (be16(bytes, 16)?, be16(bytes, 18)?),
        };
        let is_possible = (1..=MAX_BLOCK_BYTES).contains(&parameters.block_bytes)
            && parameters.target_bps > 0
            && parameters.error_threshold < 100_000
            && parameters.slower.1 > 0
            && parameters.slower.0 >= parameters.slower.1
            && parameters.faster.0 > 0
            && parameters.faster.0 <= parameters.faster.1;
        is_possible.then_some(parameters)
    }
}

/// The server's reply to the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of a block, as the client requested.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// When the transfer began, seconds since 1970.
    pub epoch: u32,
}

impl Reply {
    /// The reply's bytes.
    pub fn encode(self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..8].copy_from_slice(&self.file_bytes.to_be_bytes());
        for (i, value) in [self.block_bytes, self.blocks, self.epoch].into_iter().enumerate() {
            bytes[8 + i * 4..12 + i * 4].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Reads a reply; `None` if the number of blocks contradicts the size.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let file_bytes = u64::from(be32(bytes, 0)?) << 32 | u64::from(be32(bytes, 4)?);
        let reply = Reply {
            file_bytes,
            block_bytes: be32(bytes, 8)?,
            blocks: be32(bytes, 12)?,
            epoch: be32(bytes, 16)?,
        };
        (blocks_of(file_bytes, reply.block_bytes) == Some(reply.blocks)).then_some(reply)
    }
}

/// Number of blocks of a file; `None` if it does not fit or the block is empty.
pub fn blocks_of(file_bytes: u64, block_bytes: u32) -> Option<u32> {
    (block_bytes > 0)
        .then(|| file_bytes.div_ceil(u64::from(block_bytes)))
        .and_then(|blocks| u32::try_from(blocks).ok())
}

/// The proof of a secret: MD5 of the challenge, each byte XORed with the repeated secret. An empty secret, on
/// which the published programs crash, changes nothing.
pub fn proof(challenge: &[u8; CHALLENGE_BYTES], secret: &[u8]) -> [u8; PROOF_BYTES] {
    let mut bytes = *challenge;
    for (byte, key) in bytes.iter_mut().zip(secret.iter().cycle()) {
        *byte ^= key;
    }
    Md5::digest(bytes).into()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(be16(bytes, at)?) << 16 | u32::from(be16(bytes, at + 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_published_layout() {
        let header = Header { block: 0x0102_0304, kind: BlockKind::Last };
        assert_eq!(header.encode(), [1, 2, 3, 4, 0, 0x58]);
        assert_eq!(Request::Retransmit(7).encode(), [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(Request::Restart(258).encode(), [0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(Request::Stop.encode(), [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Request::ErrorRate(7500).encode(), [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0x1d, 0x4c]);
        let parameters = Parameters::default().encode();
        assert_eq!(parameters[..12], [0, 0, 4, 0, 0x26, 0xbe, 0x36, 0x80, 0, 0, 0x1d, 0x4c]);
        assert_eq!(parameters[12..], [0, 25, 0, 24, 0, 5, 0, 6]);
        let reply = Reply { file_bytes: 1025, block_bytes: 1024, blocks: 2, epoch: 1 };
        assert_eq!(reply.encode(), [0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 4, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
    }

    #[test]
    fn contradictions_and_impossible_parameters_are_rejected() {
        let reply = Reply { file_bytes: 1025, block_bytes: 1024, blocks: 3, epoch: 1 };
        assert_eq!(Reply::decode(&reply.encode()), None);
        assert_eq!(Reply::decode(&Reply { block_bytes: 0, ..reply }.encode()), None);
        for wrong in [
            Parameters { block_bytes: 0, ..Parameters::default() },
            Parameters { target_bps: 0, ..Parameters::default() },
            Parameters { slower: (25, 0), ..Parameters::default() },
            Parameters { faster: (6, 5), ..Parameters::default() },
            Parameters { error_threshold: 100_000, ..Parameters::default() },
        ] {
            assert_eq!(Parameters::decode(&wrong.encode()), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_proof_is_md5_of_the_challenge_and_the_repeated_secret() {
        // The challenge is the repeated secret, so that MD5 is over 64 zeros: printf with md5sum gives this.
        let challenge: [u8; 64] = std::array::from_fn(|i| DEFAULT_SECRET[i % 6]);
        let expected =
            [0x3b, 0x5d, 0x3c, 0x7d, 0x20, 0x7e, 0x37, 0xdc, 0xee, 0xed, 0xd3, 0x01, 0xe3, 0x5e, 0x2e, 0x58];
        assert_eq!(proof(&challenge, DEFAULT_SECRET), expected);
    }
}
