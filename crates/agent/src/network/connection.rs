//! One open connection with a point.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use reservation::PointName;
use rustls::pki_types::CertificateDer;
use tokio::{
    io::{AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::TlsStream;

use super::peers::{Connection, Network};
use crate::{
    frame::Frame,
    framing::{self, FRAME_TIMEOUT, MAX_FRAME_BYTES, MAX_MESSAGE_BYTES},
    inbound::Inbound,
    mesh::digest_of,
};

/// A connection without frames is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of frames that wait to be sent: several batches of the loop.
const QUEUE_FRAMES: usize = 4096;
/// Maximum number of connections with one point; the oldest is closed.
const MAX_CONNECTIONS: usize = 4;
/// Maximum number of frames that are written at once.
const FRAMES_PER_WRITE: usize = 64;

/// Passes frames between the connection and the event loop until the connection ends. `is_dialed`: this point
/// opened the connection, to send its pending frames.
pub(super) async fn run(
    network: &Arc<Network>,
    name: &PointName,
    ip: IpAddr,
    stream: TlsStream<TcpStream>,
    is_dialed: bool,
) {
    let (queue, frames) = mpsc::channel(QUEUE_FRAMES);
    let number = {
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        let key = certificate.and_then(digest_of);
        let mut state = network.lock();
        if !state.members.get(name).is_some_and(|member| member.has_key(key.as_deref())) {
            let text = "it has the certificate of a former member of this name";
            if let (true, Some(peer)) = (is_dialed, state.peers.get_mut(name)) {
                peer.is_dialing = false;
                peer.pending.clear();
                peer.failure = Some(text.into());
            }
            return tracing::info!("the connection with {name} at {ip} is closed: {text}");
        }
        state.next_connection += 1;
        let number = state.next_connection;
        let peer = state.peers.entry(name.clone()).or_default();
        peer.failure = None;
        if is_dialed {
            peer.is_dialing = false;
        }
        for frame in peer.pending.drain(..) {
            // The queue has space for all pending frames.
            let _ = queue.try_send(frame);
        }
        peer.connections.push(Connection { number, queue });
        if peer.connections.len() > MAX_CONNECTIONS {
            peer.connections.remove(0);
        }
        number
    };
    tracing::debug!("connected with {name} at {ip}");
    let connected = Inbound::Connected { name: name.clone(), ip: ip.to_canonical() };
    let ended = match network.inbox.send(connected).await {
        Ok(()) => {
            let (reader, writer) = split(stream);
            tokio::select! {
                read = read(network, name, reader) => read,
                written = write(frames, writer) => written,
            }
        }
        Err(_) => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!("the connection with {name} ended: {error}");
    }
    if let Some(peer) = network.lock().peers.get_mut(name) {
        peer.connections.retain(|connection| connection.number != number);
    }
}

async fn read(
    network: &Network,
    name: &PointName,
    mut stream: ReadHalf<TlsStream<TcpStream>>,
) -> io::Result<()> {
    while let Some(bytes) = framing::read(&mut stream, IDLE_TIMEOUT, MAX_FRAME_BYTES).await? {
        let frame: Frame = serde_json::from_slice(&bytes)?;
        if matches!(frame, Frame::Message { .. }) && bytes.len() > MAX_MESSAGE_BYTES {
            tracing::info!("a message of {} bytes from {name} is too long", bytes.len());
            continue;
        }
        let inbound = Inbound::Frame { from: name.clone(), frame };
        if network.inbox.send(inbound).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Writes the queue's frames until the queue is closed, then ends the TLS stream.
async fn write(
    mut frames: mpsc::Receiver<Frame>,
    mut stream: WriteHalf<TlsStream<TcpStream>>,
) -> io::Result<()> {
    let mut waiting = Vec::new();
    while frames.recv_many(&mut waiting, FRAMES_PER_WRITE).await > 0 {
        framing::send_all(&mut stream, &waiting).await?;
        waiting.clear();
    }
    timeout(FRAME_TIMEOUT, stream.shutdown()).await?
}
