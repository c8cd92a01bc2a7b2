//! Connections between points: TLS with a certificate of the mesh at both ends, then frames in both directions.
//!
//! Messages may be lost, when a connection ends or cannot be opened; their senders repeat them. Every wait has a deadline. Callers without
//! a certificate of the mesh get no further than the handshake.

mod connection;
mod join;
mod listener;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reservation::PointName;
use tokio::{net::TcpStream, sync::mpsc, task::AbortHandle, time::timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub use join::{JoinRequest, join};
pub(crate) use listener::listen;

use crate::{Error, Identity, Member, Members, frame::Frame, inbound::Inbound, mesh::server_name};

/// Timeout of a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of frames that wait for a connection to a point; older ones are dropped.
const MAX_PENDING_FRAMES: usize = 4096;
/// Maximum number of connections with one point; the oldest is closed.
const MAX_CONNECTIONS: usize = 4;

/// The connections of a point.
pub(crate) struct Network {
    tls: Mutex<Tls>,
    inbox: mpsc::Sender<Inbound>,
    state: Mutex<State>,
}

/// TLS with the point's certificate, which is renewed now and then.
#[derive(Clone)]
struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    fn of(identity: &Identity) -> Result<Self, Error> {
        Ok(Tls { connector: identity.client()?.into(), acceptor: identity.server()?.into() })
    }
}

#[derive(Default)]
struct State {
    members: BTreeMap<PointName, Member>,
    peers: BTreeMap<PointName, Peer>,
    next_connection: u64,
    /// Callers that have not been authenticated yet, oldest first.
    handshakes: VecDeque<(u64, AbortHandle)>,
}

/// The connections with another point, and the frames that wait for one.
#[derive(Default)]
struct Peer {
    pending: VecDeque<Frame>,
    connections: Vec<Connection>,
    is_dialing: bool,
    failure: Option<String>,
}

/// An open connection; it closes when the queue is dropped.
struct Connection {
    number: u64,
    queue: mpsc::Sender<Frame>,
}

/// The state of the connections with a point.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerState {
    /// Whether a connection is open.
    pub is_connected: bool,
    /// Why the last one could not be opened.
    pub failure: Option<String>,
}

impl Network {
    pub fn new(
        identity: &Identity,
        members: &Members,
        inbox: mpsc::Sender<Inbound>,
    ) -> Result<Arc<Self>, Error> {
        let network = Network { tls: Mutex::new(Tls::of(identity)?), inbox, state: Mutex::default() };
        network.set_members(members);
        Ok(Arc::new(network))
    }

    fn tls(&self) -> Tls {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses another certificate for the connections to come.
    pub fn set_identity(&self, identity: &Identity) -> Result<(), Error> {
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = Tls::of(identity)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the list of members; connections with others, and with former members of the same name, are closed.
    pub fn set_members(&self, members: &Members) {
        let mut state = self.lock();
        let list = members.members.iter().map(|member| (member.name.clone(), member.clone())).collect();
        let old = std::mem::replace(&mut state.members, list);
        let State { members, peers, .. } = &mut *state;
        peers.retain(|name, _| {
            let has_same_key = |new: &Member| old.get(name).is_none_or(|old| new.has_key(old.key.as_deref()));
            members.get(name).is_some_and(has_same_key)
        });
    }

    fn is_member(&self, name: &PointName) -> bool {
        self.lock().members.contains_key(name)
    }

    /// The state of the connections with a point.
    pub fn peer(&self, name: &PointName) -> PeerState {
        let state = self.lock();
        state.peers.get(name).map_or(PeerState::default(), |peer| PeerState {
            is_connected: !peer.connections.is_empty(),
            failure: peer.failure.clone(),
        })
    }

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

    async fn connect(
        &self,
        to: &PointName,
        address: &str,
    ) -> io::Result<(tokio_rustls::client::TlsStream<TcpStream>, IpAddr)> {
        let name = server_name(&to.0).map_err(io::Error::other)?;
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        let ip = stream.peer_addr()?.ip();
        let connector = self.tls().connector;
        Ok((timeout(HANDSHAKE_TIMEOUT, connector.connect(name, stream)).await??, ip))
    }
}
