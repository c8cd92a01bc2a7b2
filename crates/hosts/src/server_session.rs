//! The client's end of a session with a `longfat serve`: requests, replies, clocks, settings.

use std::{
    net::IpAddr,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use iperf3::{
    ClientOptions, Token,
    report::{Amount, Protocol, TestSpec},
    service::Channel,
    wire::{Cookie, QueueNotice},
};

use scenario::Address;

use crate::{
    Error,
    clock::{ClockOffset, Exchange},
    measured::Observer,
    message::{COOKIE_PREFIX, HostDescription, Reply, Request},
};

/// Timeout of a reply, and maximum silence of a server.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the server's time is requested, so that each end detects whether the other is alive.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of messages about flows that may arrive before the reply to a request: a server queues at
/// most 100,000 for a slow client.
const MAX_EARLY_MESSAGES: usize = 200_000;
/// Number of exchanges that compare the clocks.
const CLOCK_EXCHANGES: u32 = 8;

/// A session with the server of one host.
#[derive(Debug)]
pub(crate) struct ServerSession<'a> {
    /// The host's name in the scenario.
    pub host: String,
    /// The server's address as text.
    pub address: String,
    pub description: HostDescription,
    pub clock: ClockOffset,
    channel: Channel<'a>,
    /// The server has been requested to change settings, and not yet to restore them.
    has_changed_settings: bool,
    last_request: Instant,
}

impl<'a> ServerSession<'a> {
    /// Opens a session; `None` if the server is an iperf3. The server reports the present values of
    /// `settings`. Settings of a device are those of the device with `data_address`, or, if there is none, of
    /// the device that carries the session.
    pub(crate) fn connect(
        host: &str,
        address: &Address,
        token: Option<&Token>,
        settings: &[String],
        data_address: Option<IpAddr>,
        observer: &mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Result<Option<Self>, Error> {
        let spec = TestSpec::new(Protocol::Tcp, Amount::Time(Duration::ZERO));
        let options = ClientOptions {
            port: address.port,
            token: token.cloned(),
            ..ClientOptions::new(&address.host, spec)
        };
        let text = format!("{}:{}", address.host, address.port);
        let failed = |source| match source {
            iperf3::Error::Interrupted => Error::Interrupted,
            source => Error::Server { host: host.into(), address: text.clone(), source },
        };
        let notice = |notice: QueueNotice| observer.note(&format!("host {host}: {}", notice.text()));
        let Some(channel) = Channel::connect(&options, COOKIE_PREFIX, stop, notice).map_err(failed)? else {
            return Ok(None);
        };
        let mut session = ServerSession {
            host: host.into(),
            address: text,
            description: HostDescription::default(),
            clock: ClockOffset::default(),
            channel,
            has_changed_settings: false,
            last_request: Instant::now(),
        };
        match session.request(&Request::Inspect { settings: settings.to_vec(), data_address })? {
            Reply::Host(description) => session.description = description,
            other => return Err(session.unexpected(&other)),
        }
        session.compare_clocks()?;
        Ok(Some(session))
    }

    fn compare_clocks(&mut self) -> Result<(), Error> {
        let mut exchanges = Vec::new();
        for _ in 0..CLOCK_EXCHANGES {
            let sent_ns = os::realtime_ns();
            match self.request(&Request::Clock)? {
                Reply::Clock { realtime_ns } => {
                    let received_ns = os::realtime_ns();
                    exchanges.push(Exchange { sent_ns, server_ns: realtime_ns, received_ns });
                }
                other => return Err(self.unexpected(&other)),
            }
        }
        self.clock = ClockOffset::of(&exchanges).unwrap_or_default();
        Ok(())
    }

    /// Changes settings until the session ends.
    pub(crate) fn change(&mut self, purpose: &str, settings: &[(String, String)]) -> Result<(), Error> {
        self.has_changed_settings = true;
        match self.request(&Request::Change { purpose: purpose.into(), settings: settings.to_vec() })? {
            Reply::Changed => Ok(()),
            Reply::Refused { reason } => {
                Err(Error::NotPermitted(format!("host {} at {}: {reason}", self.host, self.address)))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Restores the changed settings; returns those that another program has changed meanwhile.
    pub(crate) fn restore(&mut self) -> Result<Vec<(String, String)>, Error> {
        if !std::mem::take(&mut self.has_changed_settings) {
            return Ok(Vec::new());
        }
        let reply = match self.request(&Request::Restore) {
            // The server restores them when this end closes the session.
            Err(Error::Interrupted) => return Ok(Vec::new()),
            reply => reply?,
        };
        match reply {
            Reply::Restored { changed_since } => Ok(changed_since),
            Reply::Refused { reason } => {
                Err(Error::NotPermitted(format!("host {} at {}: {reason}", self.host, self.address)))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sends a request whose replies [`ServerSession::poll`] returns.
    pub(crate) fn send(&mut self, request: &Request) -> Result<(), Error> {
        self.last_request = Instant::now();
        self.channel.send(request).map_err(|source| self.failed(source))
    }

    /// The next reply of a flow, if all of it has arrived. The result of a flow can take minutes on a slow
    /// path; the other sessions are served meanwhile.
    pub(crate) fn poll(&mut self) -> Result<Option<Reply>, Error> {
        if self.last_request.elapsed() >= KEEPALIVE_INTERVAL {
            self.send(&Request::Clock)?;
        }
        let reply = self.channel.poll("message of the server", REPLY_TIMEOUT);
        let reply = reply.map_err(|source| self.failed(source))?;
        // The clock was requested only as a keepalive.
        Ok(reply.filter(|reply| !matches!(reply, Reply::Clock { .. })))
    }

    /// Sends a request, before or after the flows, and waits for its reply. Messages about flows that did not
    /// end in time are ignored.
    fn request(&mut self, request: &Request) -> Result<Reply, Error> {
        self.send(request)?;
        let mut early_messages = 0;
        loop {
            let reply = self.receive()?;
            let is_early = match &reply {
                Reply::Note { .. } | Reply::Started { .. } | Reply::Rows { .. } | Reply::Done { .. } => true,
                // The reply to an earlier keepalive.
                Reply::Clock { .. } => *request != Request::Clock,
                _ => false,
            };
            // A hostile server can send them without end.
            if !is_early || early_messages == MAX_EARLY_MESSAGES {
                return Ok(reply);
            }
            early_messages += 1;
        }
    }

    fn receive(&mut self) -> Result<Reply, Error> {
        let reply = self.channel.receive("server's reply", REPLY_TIMEOUT);
        reply.map_err(|source| self.failed(source))
    }

    /// The cookie of the session.
    pub(crate) fn cookie(&self) -> Cookie {
        self.channel.cookie()
    }

    /// This machine's address as the server sees it.
    pub(crate) fn own_address(&self) -> Result<IpAddr, Error> {
        Ok(self.channel.local().map_err(|source| self.failed(source))?.ip())
    }

    /// The server's address as this machine sees it.
    pub(crate) fn server_address(&self) -> Result<IpAddr, Error> {
        Ok(self.channel.peer().map_err(|source| self.failed(source))?.ip().to_canonical())
    }

    fn failed(&self, source: iperf3::Error) -> Error {
        match source {
            iperf3::Error::Interrupted => Error::Interrupted,
            source => Error::Server { host: self.host.clone(), address: self.address.clone(), source },
        }
    }

    fn unexpected(&self, reply: &Reply) -> Error {
        let text = match reply {
            Reply::Refused { reason } => reason.clone(),
            _ => "the server's reply does not fit the request".into(),
        };
        Error::NotPermitted(format!("host {} at {}: {text}", self.host, self.address))
    }
}
