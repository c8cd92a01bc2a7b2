//! A new point joins a mesh with an invitation.

use std::{net::SocketAddr, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::peers::{CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT};
use crate::{
    Error, Identity, Invitation, Members,
    frame::Frame,
    framing::{self, FRAME_TIMEOUT, MAX_FRAME_BYTES},
    mesh::server_name,
};

/// How the new point will be reached.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// Where it will listen.
    pub listen: SocketAddr,
    /// Where others reach it, `HOST:PORT`; `None`: at the address from which it connects, and the port of
    /// `listen`.
    pub address: Option<String>,
}

/// Redeems an invitation: writes certificate, key and members into the state directory. Returns the members.
///
/// # Errors
/// If the authority cannot be reached or refuses, or files cannot be written.
pub fn join(invitation: &Invitation, request: &JoinRequest, state: &Path) -> Result<Members, Error> {
    let (key, public_key) = Identity::joining_key(state)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::system("start a runtime", cause))?;
    let join = Frame::Join {
        public_key: HEXLOWER.encode(&public_key),
        address: request.address.clone(),
        port: request.listen.port(),
    };
    let authority = format!("the point {} at {}", invitation.authority, invitation.address);
    let reply = runtime.block_on(exchange(invitation, &join));
    match reply.map_err(|cause| Error::system(format!("join the mesh of {authority}"), cause))? {
        Some(Frame::Joined { certificate, members }) => {
            let certificate = STANDARD.decode(certificate);
            let certificate = certificate
                .map_err(|cause| Error::tls(format!("read the certificate of {authority}"), cause))?;
            let root = invitation.identity.authority_certificate().to_vec();
            members.write(state)?;
            Identity::joined(&invitation.name, certificate, key, root).create(state)?;
            Ok(members)
        }
        Some(Frame::Refused { text }) => Err(Error::Refused(format!("{authority} refuses: {text}"))),
        _ => Err(Error::Refused(format!("{authority} did not reply"))),
    }
}

async fn exchange(invitation: &Invitation, join: &Frame) -> std::io::Result<Option<Frame>> {
    let client = invitation.identity.client().map_err(std::io::Error::other)?;
    let name = server_name(&invitation.authority).map_err(std::io::Error::other)?;
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(&invitation.address)).await??;
    let connector = TlsConnector::from(client);
    let mut stream = timeout(HANDSHAKE_TIMEOUT, connector.connect(name, stream)).await??;
    framing::send(&mut stream, join).await?;
    framing::receive(&mut stream, FRAME_TIMEOUT, MAX_FRAME_BYTES).await
}
