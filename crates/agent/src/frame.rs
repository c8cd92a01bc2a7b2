//! The frames that agents exchange: JSON, preceded by its length in four bytes (big endian), over TLS.

use std::{io, time::Duration};

use reservation::{Message, ReservationId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::{Announcement, Members, archive::TestRow, control::CalendarReport, test::Endpoint};

/// The protocol's name in TLS (ALPN, RFC 7301).
pub(crate) const PROTOCOL: &[u8] = b"longfat-agent/1";
/// The longest frame, bytes: a list of some thousand members.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 20;
/// The longest message about a reservation, bytes: it is stored.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1 << 14;
/// The longest frame on a connection that is authenticated by an invitation only, bytes.
pub(crate) const MAX_JOIN_BYTES: usize = 1 << 12;
/// Timeout of a frame after its header, and of the sending of one.
pub(crate) const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes before a frame: its length.
const HEADER_BYTES: usize = 4;

/// The messages that agents send to each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "frame")]
pub(crate) enum Frame {
    /// To the authority: the sender has this version of the list of members, and this entry in the directory.
    Hello {
        /// The version.
        members: u64,
        /// The entry; `None` from earlier versions.
        #[serde(default)]
        announcement: Option<Box<Announcement>>,
    },
    /// About a reservation.
    Message {
        /// The message.
        message: Box<Message>,
    },
    /// Lead to peer: request for the address of this test's server.
    Endpoint {
        /// The reservation.
        id: ReservationId,
    },
    /// Peer to lead: the server's address.
    Serving {
        /// The reservation.
        id: ReservationId,
        /// Port and secret.
        endpoint: Endpoint,
    },
    /// Lead to the others: the result of a test, which is over.
    Result {
        /// The result.
        row: Box<TestRow>,
    },
    /// Reply to `Result`: it is stored.
    Stored {
        /// The reservation.
        id: String,
    },
    /// Authority to members: the list of members.
    Members {
        /// The list.
        members: Members,
    },
    /// Request for the occupied slots.
    CalendarWanted {
        /// How far into the future, seconds.
        seconds: u64,
    },
    /// Reply to `CalendarWanted`.
    Calendar {
        /// The calendar.
        report: Box<CalendarReport>,
    },
    /// Member to authority: certify this key, as in the certificate that will expire.
    Renew {
        /// The public key, hexadecimal.
        public_key: String,
    },
    /// Reply to `Renew`.
    Renewed {
        /// The certificate, base64.
        certificate: String,
    },
    /// With an invitation: certify this key.
    Join {
        /// The public key, hexadecimal.
        public_key: String,
        /// How other points reach the new one; `None`: by the address that this connection comes from.
        address: Option<String>,
        /// The port at which it listens.
        port: u16,
    },
    /// Reply to `Join`.
    Joined {
        /// The certificate, base64.
        certificate: String,
        /// The list of members.
        members: Members,
    },
    /// Reply to `Join`: refused.
    Refused {
        /// The reason.
        text: String,
    },
}

/// Reads a frame's bytes; waits for its beginning for `idle`. `None` at the end of the connection.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    idle: Duration,
    limit: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    match timeout(idle, stream.read_exact(&mut header)).await? {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let length = u32::from_be_bytes(header) as usize;
    if length > limit {
        let text = format!("a frame of {length} bytes; at most {limit} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    // The buffer grows with the bytes that arrive, not with the announced length.
    let mut bytes = Vec::new();
    timeout(FRAME_TIMEOUT, stream.take(length as u64).read_to_end(&mut bytes)).await??;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes))
}

/// Reads a frame.
pub(crate) async fn receive<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    idle: Duration,
    limit: usize,
) -> io::Result<Option<T>> {
    let Some(bytes) = read(stream, idle, limit).await? else { return Ok(None) };
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Encodes a frame, with its header.
pub(crate) fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len() - HEADER_BYTES;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too long"));
    }
    bytes[..HEADER_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Sends a frame.
pub(crate) async fn send(stream: &mut (impl AsyncWrite + Unpin), frame: &impl Serialize) -> io::Result<()> {
    send_all(stream, std::slice::from_ref(frame)).await
}

/// Sends frames, with one write.
pub(crate) async fn send_all(
    stream: &mut (impl AsyncWrite + Unpin),
    frames: &[impl Serialize],
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for frame in frames {
        bytes.append(&mut encode(frame)?);
    }
    timeout(FRAME_TIMEOUT, async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    })
    .await?
}
