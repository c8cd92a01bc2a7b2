//! Sends frames; opens a connection if there is none.

use std::{io, net::IpAddr, sync::Arc};

use reservation::PointName;
use tokio::{net::TcpStream, sync::mpsc, time::timeout};
use tokio_rustls::client::TlsStream;

use super::{
    connection,
    peers::{CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT, Network},
};
use crate::{frame::Frame, mesh::server_name};

/// Maximum number of frames that wait for a connection to a point; older ones are dropped.
const MAX_PENDING_FRAMES: usize = 4096;

impl Network {
    /// Sends a frame, or drops it.
    pub fn send(self: &Arc<Self>, to: &PointName, frame: Frame) {
        let mut state = self.lock();
        let Some(address) = state.members.get(to).map(|member| member.address.clone()) else { return };
        let peer = state.peers.entry(to.clone()).or_default();
        let mut frame = frame;
        while let Some(connection) = peer.connections.last() {
            match connection.queue.try_send(frame) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    tracing::warn!("{to} does not read; a frame is dropped");
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(unsent)) => {
                    frame = unsent;
                    peer.connections.pop();
                }
            }
        }
        if peer.pending.len() >= MAX_PENDING_FRAMES {
            peer.pending.pop_front();
        }
        peer.pending.push_back(frame);
        if !std::mem::replace(&mut peer.is_dialing, true) {
            tokio::spawn(Arc::clone(self).dial(to.clone(), address));
        }
    }

    async fn dial(self: Arc<Self>, to: PointName, address: String) {
        match self.connect(&to, &address).await {
            Ok((stream, ip)) => connection::run(&self, &to, ip, stream.into(), true).await,
            Err(error) => {
                tracing::info!("cannot connect to {to} at {address}: {error}");
                let mut state = self.lock();
                let Some(peer) = state.peers.get_mut(&to) else { return };
                peer.is_dialing = false;
                peer.pending.clear();
                peer.failure = Some(error.to_string());
            }
        }
    }

    async fn connect(&self, to: &PointName, address: &str) -> io::Result<(TlsStream<TcpStream>, IpAddr)> {
        let name = server_name(&to.0).map_err(io::Error::other)?;
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        let ip = stream.peer_addr()?.ip();
        let connector = self.tls().connector;
        Ok((timeout(HANDSHAKE_TIMEOUT, connector.connect(name, stream)).await??, ip))
    }
}
