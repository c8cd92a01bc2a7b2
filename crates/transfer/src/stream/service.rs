//! The service of `longfat serve` for streams.

use std::{sync::atomic::AtomicBool, time::Duration};

use iperf3::{
    Error,
    service::{Service, ServiceClient},
    wire::Cookie,
};
use traffic::{Attempted, udp::set_up_bulk};
use units::{BitRate, Time};

use super::{
    message::{COOKIE_PREFIX, Direction, Message, Request},
    session::{Role, run},
};

/// Timeout of the client's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends streams to clients, or receives theirs.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamService {
    /// The highest rate of payload.
    pub max_rate: Option<BitRate>,
    /// The longest stream.
    pub max_duration: Option<Duration>,
}

impl Service for StreamService {
    fn name(&self) -> &str {
        "real-time stream"
    }

    fn accepts(&self, cookie: &Cookie) -> bool {
        cookie.as_str().starts_with(COOKIE_PREFIX)
    }

    fn checks_token(&self) -> bool {
        true
    }

    fn serve(&self, client: ServiceClient<'_>, stop: &AtomicBool) -> Result<(), Error> {
        let hello = client.udp_hello();
        let mut channel = client.into_channel(stop)?;
        let request: Request = channel.receive("request of a stream", REQUEST_TIMEOUT)?;
        let parameters = match request.parameters().and_then(|parameters| {
            self.check(parameters.rate, parameters.time_of(request.packets))?;
            Ok(parameters)
        }) {
            Ok(parameters) => parameters,
            Err(reason) => return channel.send(&Message::Refused { reason }),
        };
        channel.send(&Message::Ready)?;
        let socket = hello.wait("UDP hello of a stream", stop)?;
        set_up_bulk(&socket).attempted(|| "set up a UDP socket".into())?;
        let role = match request.direction {
            Direction::ToServer => Role::Receives,
            Direction::FromServer => Role::Sends,
        };
        run(role, parameters, socket, &mut channel, stop, |_| {}).map(drop)
    }
}

impl StreamService {
    /// Why this server refuses a stream.
    fn check(&self, rate: BitRate, duration: Time) -> Result<(), String> {
        if let Some(max) = self.max_rate.filter(|max| rate > *max) {
            return Err(format!("this server accepts at most {max}"));
        }
        let seconds = duration.as_secs_f64();
        match self.max_duration.filter(|max| seconds > max.as_secs_f64()) {
            Some(max) => Err(format!("this server accepts at most {} s", max.as_secs_f64())),
            None => Ok(()),
        }
    }
}
