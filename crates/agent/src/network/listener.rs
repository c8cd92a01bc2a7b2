//! Accepts connections of other points and of holders of an invitation.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    connection,
    peers::{HANDSHAKE_TIMEOUT, Network},
};
use crate::{
    frame::Frame,
    framing::{self, FRAME_TIMEOUT, MAX_JOIN_BYTES},
    inbound::Inbound,
    mesh::CertificateOwner,
};

/// Maximum number of connections that are not authenticated yet; above it the oldest is closed.
const MAX_HANDSHAKES: usize = 512;
/// Pause after a failed accept(2), for example because no descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections, forever.
pub(crate) async fn listen(network: Arc<Network>, listener: TcpListener) {
    let mut number = 0;
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        number += 1;
        let session = greet(Arc::clone(&network), network.tls().acceptor, stream, from.ip(), number);
        let task = tokio::spawn(session);
        let mut state = network.lock();
        state.handshakes.push_back((number, task.abort_handle()));
        if state.handshakes.len() > MAX_HANDSHAKES
            && let Some((_, oldest)) = state.handshakes.pop_front()
        {
            oldest.abort();
        }
    }
}

/// Authenticates the other end of a connection and serves it.
async fn greet(network: Arc<Network>, acceptor: TlsAcceptor, stream: TcpStream, ip: IpAddr, number: u64) {
    let accepted = timeout(HANDSHAKE_TIMEOUT, accept(&acceptor, stream)).await;
    // From now on it is not closed in favour of newer connections.
    network.lock().handshakes.retain(|(handshake, _)| *handshake != number);
    let (stream, owner) = match accepted {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => return tracing::debug!("{ip} is not authenticated: {error}"),
        Err(_) => return tracing::debug!("{ip} did not authenticate itself in time"),
    };
    match owner {
        CertificateOwner::Point(name) if network.is_member(&name) => {
            connection::run(&network, &name, ip, stream.into(), false).await;
        }
        CertificateOwner::Point(name) => {
            tracing::info!("{name} at {ip} is no longer a member of the mesh")
        }
        CertificateOwner::Invited(id) => {
            if let Err(error) = serve_join(&network, stream, ip, id).await {
                tracing::info!("{ip} could not join: {error}");
            }
        }
    }
}

async fn accept(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> io::Result<(TlsStream<TcpStream>, CertificateOwner)> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
    let owner = certificate.and_then(CertificateOwner::of);
    let owner = owner.ok_or_else(|| io::Error::other("its certificate names no point"))?;
    Ok((stream, owner))
}

/// Passes a request to join to the event loop, and the reply to the client.
async fn serve_join(
    network: &Network,
    mut stream: TlsStream<TcpStream>,
    ip: IpAddr,
    invitation: String,
) -> io::Result<()> {
    let frame = framing::receive(&mut stream, FRAME_TIMEOUT, MAX_JOIN_BYTES).await?;
    let Some(frame @ Frame::Join { .. }) = frame else {
        return Err(io::Error::other("an invitation permits only a join request"));
    };
    let (reply, replied) = oneshot::channel();
    let inbound = Inbound::Join { invitation, ip: ip.to_canonical(), frame, reply };
    network.inbox.send(inbound).await.map_err(|_| io::Error::other("the agent ends"))?;
    let frame = timeout(FRAME_TIMEOUT, replied).await?.map_err(|_| io::Error::other("the agent ends"))?;
    framing::send(&mut stream, &frame).await
}
