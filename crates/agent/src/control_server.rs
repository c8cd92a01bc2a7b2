//! The control socket of a running agent.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use reservation::PointName;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::{
    Error,
    control::{self, Reply, Request},
    files,
    framing::{self, FRAME_TIMEOUT},
    inbound::Inbound,
    roles::Roles,
    users::LocalUser,
};

/// Maximum number of simultaneous requests.
const MAX_REQUESTS: usize = 32;
/// Maximum size of a request, bytes. It is larger than the documents of the HTTP interface, because such a
/// document becomes a request.
const MAX_REQUEST_BYTES: usize = 1 << 16;
/// Time within which the agent must reply to a request.
const WORK_TIMEOUT: Duration = Duration::from_secs(8);

/// The mode of the socket: for its owner only; also for its group if users of this point have roles.
pub(crate) fn mode(roles: &Roles, own: &PointName) -> u32 {
    if roles.has_users_of(own) { 0o660 } else { 0o600 }
}

/// Sets the mode of the socket.
pub(crate) fn set_mode(state: &Path, mode: u32) -> Result<(), Error> {
    let path = control::socket(state);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(files::failed("protect", &path))
}

/// Opens the socket with this mode. This process holds the calendar's lock, so an existing socket is left
/// over from a killed agent.
pub(crate) fn bind(state: &Path, mode: u32) -> Result<UnixListener, Error> {
    let path = control::socket(state);
    if path.exists() {
        fs::remove_file(&path).map_err(files::failed("replace", &path))?;
    }
    let listener = UnixListener::bind(&path).map_err(files::failed("create the control socket", &path))?;
    set_mode(state, mode)?;
    Ok(listener)
}

/// Serves requests, forever.
pub(crate) async fn listen(listener: UnixListener, inbox: mpsc::Sender<Inbound>) {
    let permits = std::sync::Arc::new(Semaphore::new(MAX_REQUESTS));
    loop {
        let Ok(permit) = std::sync::Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let inbox = inbox.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, &inbox).await {
                        tracing::debug!("a local request failed: {error}");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept a local request: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(mut stream: UnixStream, inbox: &mpsc::Sender<Inbound>) -> std::io::Result<()> {
    let user = LocalUser::of(stream.peer_cred()?.uid());
    let request: Option<Request> = framing::receive(&mut stream, FRAME_TIMEOUT, MAX_REQUEST_BYTES).await?;
    let Some(request) = request else { return Ok(()) };
    let late = match &request {
        Request::Calendar { point: Some(point), .. } => format!("{point} does not reply"),
        _ => "the agent is stopping, or is too busy".into(),
    };
    let (reply, replied) = oneshot::channel();
    let sent = inbox.send(Inbound::Control { user, request, reply }).await;
    let no_reply = || Reply::Error(late);
    let replied = match sent {
        Ok(()) => timeout(WORK_TIMEOUT, replied).await.ok().and_then(Result::ok),
        Err(_) => None,
    };
    let mut reply = replied.unwrap_or_else(no_reply);
    if framing::encode(&reply).is_err() {
        reply = Reply::Error("the reply is too long: request fewer rows, or a shorter time".into());
    }
    framing::send(&mut stream, &reply).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::MAX_FRAME_BYTES;

    #[test]
    fn a_request_may_be_as_long_as_a_document_of_the_http_interface() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let length = runtime.block_on(async {
            let (mut client, server) = UnixStream::pair().unwrap();
            let (inbox, mut requests) = mpsc::channel(1);
            let request = Request::Cancel { id: "a/1".into(), text: "a".repeat(16 * 1024), token: None };
            framing::send(&mut client, &request).await.unwrap();
            let agent = async {
                let request = requests.recv().await;
                let Some(Inbound::Control { request: Request::Cancel { text, .. }, reply, .. }) = request
                else {
                    panic!("no request")
                };
                reply.send(Reply::Ok(true.into())).unwrap();
                Ok::<_, std::io::Error>(text.len())
            };
            tokio::try_join!(serve(server, &inbox), agent).unwrap().1
        });
        assert_eq!(length, 16 * 1024);
    }

    #[test]
    fn a_reply_that_is_too_long_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(async {
            let (mut client, server) = UnixStream::pair().unwrap();
            let (inbox, mut requests) = mpsc::channel(1);
            let agent = async {
                let request = requests.recv().await;
                let Some(Inbound::Control { reply, .. }) = request else { panic!("no request") };
                reply.send(Reply::Ok("a".repeat(MAX_FRAME_BYTES).into())).unwrap();
            };
            let exchange = async {
                framing::send(&mut client, &Request::Status).await.unwrap();
                framing::receive::<Reply>(&mut client, FRAME_TIMEOUT, MAX_FRAME_BYTES).await.unwrap()
            };
            let (reply, (), served) = tokio::join!(exchange, agent, serve(server, &inbox));
            served.unwrap();
            reply
        });
        assert!(matches!(reply, Some(Reply::Error(text)) if text.starts_with("the reply is too long")));
    }
}
