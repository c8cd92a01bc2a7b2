//! The service of `longfat serve` for a run of a scenario: describes its host, changes settings, sends flows.

use std::{
    net::{IpAddr, ToSocketAddrs},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread::Scope,
    time::{Duration, Instant},
};

use iperf3::{
    Error as ServerError, Token,
    service::{Channel, ListenerRenewal, Service, ServiceClient},
    wire::{Cookie, Samples},
};
use schema::FlowSample;
use tune::Reverted;

use crate::{
    ChangedSettings,
    error::chain,
    flow::{FlowObserver, run_flow},
    message::{COOKIE_PREFIX, FlowRequest, HostDescription, Reply, Request, Traffic},
    settings,
};

/// Interval at which a session checks for replies to send and for a stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Timeout of a silent client; clients request the time every few seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the remainder of a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of flows of a session.
const MAX_FLOWS: usize = 128;

/// Serves programs that run scenarios between hosts.
#[derive(Debug, Clone, Default)]
pub struct HostService {
    /// Settings may be changed for the duration of a session.
    pub allows_tune: bool,
    /// The server's token. With it, the host sends flows to other hosts than the client, which must have the same token.
    pub token: Option<Token>,
}

impl Service for HostService {
    fn name(&self) -> &str {
        "run of a scenario"
    }

    fn accepts(&self, cookie: &Cookie) -> bool {
        cookie.as_str().starts_with(COOKIE_PREFIX)
    }

    fn checks_token(&self) -> bool {
        true
    }

    fn uses_datagrams(&self) -> bool {
        false
    }

    fn serve(&self, client: ServiceClient<'_>, stop: &AtomicBool) -> Result<(), ServerError> {
        let peer = client.peer.ip();
        let listener = client.listener_renewal();
        let mut channel = client.into_channel(stop)?;
        let local = channel.local()?.ip();
        let stop_flows = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut session = Session {
                service: self,
                peer,
                local,
                changed: None,
                listener,
                flows: 0,
                stop_flows: &stop_flows,
            };
            let ended = session.run(&mut channel, stop, scope);
            stop_flows.store(true, Ordering::Release);
            if let Err(error) = session.restore(!stop.load(Ordering::Acquire)) {
                tracing::error!(%error, "cannot restore settings");
            }
            ended
        })
    }
}

struct Session<'a> {
    service: &'a HostService,
    peer: IpAddr,
    /// The address of this host to which the client has connected.
    local: IpAddr,
    changed: Option<ChangedSettings>,
    /// Renews the listening socket: connections inherit the buffers that were set when it was created.
    listener: ListenerRenewal<'a>,
    flows: usize,
    stop_flows: &'a AtomicBool,
}

impl<'a> Session<'a> {
    fn run<'scope>(
        &mut self,
        channel: &mut Channel<'_>,
        stop: &AtomicBool,
        scope: &'scope Scope<'scope, 'a>,
    ) -> Result<(), ServerError> {
        let (sender, replies) = std::sync::mpsc::channel();
        let mut last_message = Instant::now();
        while !stop.load(Ordering::Acquire) {
            while let Ok(reply) = replies.try_recv() {
                channel.send(&reply)?;
            }
            if last_message.elapsed() > IDLE_TIMEOUT {
                return Err(ServerError::Timeout { what: "message of a run", after: IDLE_TIMEOUT });
            }
            if !channel.wait(CHECK_INTERVAL)? {
                continue;
            }
            last_message = Instant::now();
            let request = match channel.receive::<Request>("request of a run", MESSAGE_TIMEOUT) {
                // The client has ended the session.
                Err(ServerError::Closed { .. }) => return Ok(()),
                other => other?,
            };
            if let Some(reply) = self.handle(request, &sender, scope) {
                channel.send(&reply)?;
            }
        }
        Err(ServerError::Interrupted)
    }

    /// Handles a request; `None` if its replies follow later.
    fn handle<'scope>(
        &mut self,
        request: Request,
        replies: &Sender<Reply>,
        scope: &'scope Scope<'scope, 'a>,
    ) -> Option<Reply> {
        let refused = |error: &dyn std::error::Error| Reply::Refused { reason: chain(error) };
        Some(match request {
            Request::Inspect { settings, data_address } => {
                let address = data_address.unwrap_or(self.local);
                let device = tune::device_with_address(address.to_canonical());
                match settings::read(&settings::of_device(settings, device.as_deref())) {
                    Ok(settings) => {
                        let HostReading { name, kernel } = HostReading::of_this_host();
                        Reply::Host(HostDescription {
                            version: env!("CARGO_PKG_VERSION").into(),
                            name,
                            kernel,
                            settings,
                            allows_tune: self.service.allows_tune,
                            sends_to_others: self.service.token.is_some(),
                            device,
                        })
                    }
                    Err(error) => refused(&error),
                }
            }
            Request::Clock => Reply::Clock { realtime_ns: os::realtime_ns() },
            Request::Change { .. } if !self.service.allows_tune => Reply::Refused {
                reason: "this server does not change settings; start it with --allow-tune".into(),
            },
            Request::Change { purpose, settings } => {
                self.changed = None;
                match ChangedSettings::change(&purpose, &settings) {
                    Ok(changed) => {
                        self.changed = Some(changed);
                        match self.listener.renew() {
                            Ok(()) => Reply::Changed,
                            Err(error) => refused(&error),
                        }
                    }
                    Err(error) => refused(&error),
                }
            }
            Request::Restore => match self.restore(true) {
                Ok(reverted) => Reply::Restored { changed_since: reverted.changed_since },
                Err(error) => refused(&error),
            },
            Request::Run { number, flow } => {
                if let Err(reason) = self.check(&flow) {
                    let end = crate::message::FlowEnd { error: Some(reason), ..Default::default() };
                    return Some(Reply::Done { number, end: Box::new(end) });
                }
                self.flows += 1;
                let (token, stop, replies) = (self.service.token.as_ref(), self.stop_flows, replies.clone());
                scope.spawn(move || {
                    let mut observer = ReplyingObserver { number, replies };
                    let end = run_flow(&flow, token, stop, &mut observer);
                    observer.send(Reply::Done { number, end: Box::new(end) });
                });
                return None;
            }
            Request::Stop => {
                self.stop_flows.store(true, Ordering::Release);
                return None;
            }
        })
    }

    /// Restores the changed settings; with `renews`, new connections have the restored buffers too.
    fn restore(&mut self, renews: bool) -> Result<Reverted, crate::Error> {
        let Some(changed) = self.changed.take() else { return Ok(Reverted::default()) };
        let reverted = changed.restore()?;
        if renews && let Err(error) = self.listener.renew() {
            tracing::warn!(%error, "cannot renew the listening socket");
        }
        Ok(reverted)
    }

    /// Why a flow may not be sent: a server without a token sends to its client only, so that it cannot be made to
    /// send traffic to third parties.
    fn check(&self, flow: &FlowRequest) -> Result<(), String> {
        if self.flows >= MAX_FLOWS {
            return Err(format!("a session has at most {MAX_FLOWS} flows"));
        }
        if flow.sample_us == 0 {
            return Err("the interval of samples is 0".into());
        }
        if self.service.token.is_some() {
            return Ok(());
        }
        let resolved = (flow.to.as_str(), flow.port).to_socket_addrs().map_err(|e| e.to_string())?;
        let is_client = |ip: IpAddr| ip.to_canonical() == self.peer.to_canonical();
        match resolved.into_iter().all(|address| is_client(address.ip())) {
            true => Ok(()),
            false if matches!(flow.traffic, Traffic::Ping { .. }) => {
                Err("this server sends echo requests to other hosts only if it has a token (--token)".into())
            }
            false => Err("this server sends data to other hosts only if it has a token (--token)".into()),
        }
    }
}

/// Name and kernel of this host.
pub(crate) struct HostReading {
    pub name: String,
    pub kernel: String,
}

impl HostReading {
    pub(crate) fn of_this_host() -> Self {
        let read = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
            text.trim().to_string()
        };
        HostReading { name: read("hostname"), kernel: read("osrelease") }
    }
}

/// Sends the progress of a flow to the client.
pub(crate) struct ReplyingObserver {
    pub(crate) number: u32,
    pub(crate) replies: Sender<Reply>,
}

impl ReplyingObserver {
    pub(crate) fn send(&self, reply: Reply) {
        // An error means that the session has ended.
        let _ = self.replies.send(reply);
    }
}

impl FlowObserver for ReplyingObserver {
    fn note(&mut self, text: &str) {
        self.send(Reply::Note { number: self.number, text: text.into() });
    }

    fn started(&mut self, realtime_ns: i64) {
        self.send(Reply::Started { number: self.number, realtime_ns });
    }

    fn rows(&mut self, rows: &[FlowSample]) {
        self.send(Reply::Rows { number: self.number, samples: Samples::of(rows) });
    }
}
