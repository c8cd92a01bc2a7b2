//! The state of the connections with all points: members, open connections, and the frames that wait for one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reservation::PointName;
use tokio::{sync::mpsc, task::AbortHandle};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{Error, Identity, Member, Members, frame::Frame, inbound::Inbound};

/// Timeout of a TCP connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of a point.
pub(crate) struct Network {
    tls: Mutex<Tls>,
    pub(super) inbox: mpsc::Sender<Inbound>,
    state: Mutex<State>,
}

/// TLS with the point's certificate, which is renewed before it expires.
#[derive(Clone)]
pub(super) struct Tls {
    pub connector: TlsConnector,
    pub acceptor: TlsAcceptor,
}

impl Tls {
    fn of(identity: &Identity) -> Result<Self, Error> {
        Ok(Tls { connector: identity.client()?.into(), acceptor: identity.server()?.into() })
    }
}

#[derive(Default)]
pub(super) struct State {
    pub members: BTreeMap<PointName, Member>,
    pub peers: BTreeMap<PointName, Peer>,
    pub next_connection: u64,
    /// Connections that have not been authenticated yet, oldest first.
    pub handshakes: VecDeque<(u64, AbortHandle)>,
}

/// The connections with another point, and the frames that wait for one.
#[derive(Default)]
pub(super) struct Peer {
    pub pending: VecDeque<Frame>,
    pub connections: Vec<Connection>,
    pub is_dialing: bool,
    pub failure: Option<String>,
}

/// An open connection; it closes when the queue is dropped.
pub(super) struct Connection {
    pub number: u64,
    pub queue: mpsc::Sender<Frame>,
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

    pub(super) fn tls(&self) -> Tls {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses another certificate for new connections.
    pub fn set_identity(&self, identity: &Identity) -> Result<(), Error> {
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = Tls::of(identity)?;
        Ok(())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the list of members. Closes connections with points that are no longer members, and with
    /// former members of the same name.
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

    pub(super) fn is_member(&self, name: &PointName) -> bool {
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
}
