//! Frames as bytes: JSON, preceded by its length in four bytes (big endian). Agents send them over TLS, local
//! users over a Unix socket.

use std::{io, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

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
