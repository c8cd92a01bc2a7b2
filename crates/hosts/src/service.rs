//! The service of `longfat serve` for a run of a scenario: describes its host, changes settings, sends flows.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread::Scope,
    time::{Duration, Instant},
};

use iperf3::{
    Error as ServerError, Token,
    service::{Channel, ListenerRenewal, Service, ServiceClient},
    wire::Cookie,
};
use tune::Reverted;

use crate::{
    ChangedSettings,
    error::chain,
    flow::run_flow,
    flow_limits,
    message::{COOKIE_PREFIX, FlowEnd, FlowRequest, HostDescription, Reply, Request},
    reply_queue::{ReplySender, ReplyingObserver, reply_queue},
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
    /// The server's token. With it, the host sends flows to other hosts than the client, which must have the
    /// same token.
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
        let (sender, replies) = reply_queue();
        let mut last_message = Instant::now();
        while !stop.load(Ordering::Acquire) {
            let reply = replies.next();
            let pause = if reply.is_some() { Duration::ZERO } else { CHECK_INTERVAL };
            if let Some(reply) = reply {
                channel.send(&reply)?;
            }
            if !channel.wait(pause)? {
                // On a slow path the reply can have taken longer; the client's messages have then arrived
                // meanwhile.
                if last_message.elapsed() > IDLE_TIMEOUT {
                    return Err(ServerError::Timeout { what: "message of a run", after: IDLE_TIMEOUT });
                }
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
        replies: &ReplySender,
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
                let changed = settings::refuse_secrets(&settings)
                    .and_then(|()| ChangedSettings::change(&purpose, &settings));
                match changed {
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
                let flow = match self.permit(flow) {
                    Ok(flow) => flow,
                    Err(reason) => {
                        let end = FlowEnd { error: Some(reason), ..FlowEnd::default() };
                        return Some(Reply::Done { number, end: Box::new(end) });
                    }
                };
                self.flows += 1;
                let (token, stop, replies) = (self.service.token.as_ref(), self.stop_flows, replies.clone());
                let run = move || {
                    let mut observer = ReplyingObserver { number, replies };
                    let end = run_flow(&flow, token, stop, &mut observer);
                    observer.replies.send(Reply::Done { number, end: Box::new(end) });
                };
                // `Scope::spawn` would panic if the system has no more threads.
                match std::thread::Builder::new().name("flow".into()).spawn_scoped(scope, run) {
                    Ok(_) => return None,
                    Err(error) => {
                        let error = Some(format!("cannot start a thread for the flow: {error}"));
                        Reply::Done { number, end: Box::new(FlowEnd { error, ..FlowEnd::default() }) }
                    }
                }
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

    /// The flow as it is run, or why it is not.
    fn permit(&self, flow: FlowRequest) -> Result<FlowRequest, String> {
        if self.flows >= MAX_FLOWS {
            return Err(format!("a session has at most {MAX_FLOWS} flows"));
        }
        let only_to = self.service.token.is_none().then_some(self.peer);
        flow_limits::permit(flow, only_to)
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
