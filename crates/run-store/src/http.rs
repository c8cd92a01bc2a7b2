//! The HTTP client: hyper with rustls and ring. Every step has a deadline.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::{self, Client, connect};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, Error};

use crate::uplink::upload_time;

/// Timeout of the TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a reply's header. The time to send the request's body is added.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection is closed if the server's machine has not acknowledged data for this time (tcp(7),
/// `TCP_USER_TIMEOUT`), so that a large request to a server that has vanished does not wait for its deadline.
const ACK_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle connections are closed after this time, before servers close them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Creates clients. On a machine without CA certificates they use HTTP only.
#[derive(Debug)]
pub(crate) struct Connector {
    /// Whether the endpoint needs HTTPS.
    pub(crate) needs_tls: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = connect::HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_tcp_user_timeout(Some(ACK_TIMEOUT));
        tcp.set_nodelay(true);
        let provider = rustls::crypto::ring::default_provider();
        match HttpsConnectorBuilder::new().with_provider_and_native_roots(provider) {
            Ok(builder) => Ok(client(builder.https_or_http().enable_http1().wrap_connector(tcp))),
            Err(_) if !self.needs_tls => Ok(client(tcp)),
            Err(error) => Err(Error::Generic {
                store: "S3",
                source: format!("cannot read this machine's CA certificates: {error} (SSL_CERT_FILE)").into(),
            }),
        }
    }
}

fn client<C: connect::Connect + Clone + Debug + Send + Sync + 'static>(connector: C) -> HttpClient {
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector);
    HttpClient::new(Service(client))
}

#[derive(Debug)]
struct Service<C>(Client<C, HttpRequestBody>);

#[async_trait]
impl<C: connect::Connect + Clone + Debug + Send + Sync + 'static> HttpService for Service<C> {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let bytes = request.body().content_length() as u64;
        let timeout = REPLY_TIMEOUT + upload_time(bytes);
        let reply = tokio::time::timeout(timeout, self.0.request(request)).await;
        let reply = reply.map_err(|_| late(timeout))?.map_err(failed)?;
        let (head, body) = reply.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

fn late(timeout: Duration) -> HttpError {
    let error =
        std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no reply within {} s", timeout.as_secs()));
    HttpError::new(HttpErrorKind::Timeout, error)
}

fn failed(error: legacy::Error) -> HttpError {
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
    HttpError::new(kind, error)
}
