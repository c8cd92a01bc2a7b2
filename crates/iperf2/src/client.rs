//! The client: connects the streams and sends the header on each.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use iperf3::{
    ClientOptions, Error, Observer, TestOutcome,
    plain_streams::{self, End, PlainTest, new_socket, set_up},
    report::{self, Direction, Protocol, Role},
};
use socket2::Socket;
use traffic::Attempted;

use crate::{
    test_set_up::{addresses, from, header, no_address},
    udp_client,
    wire::{Amount, MAX_AMOUNT_BYTES},
};

/// The port of iperf 2's servers.
pub const DEFAULT_PORT: u16 = 5001;

/// Tests with an iperf 2 server. Options that iperf 2's protocol does not have are ignored. Ends early when
/// `stop` is set.
pub fn test(options: &ClientOptions, stop: &AtomicBool, observer: &mut dyn Observer) -> TestOutcome {
    let outcome = check_amount(options).and_then(|()| match options.spec.protocol {
        Protocol::Tcp => connect(options, observer).map(|test| plain_streams::run(test, stop, observer)),
        Protocol::Udp => udp_client::test(options, stop, observer),
    });
    outcome.unwrap_or_else(|error| {
        let mut outcome = TestOutcome::default();
        outcome.report.error = Some(error.to_string());
        outcome.error = Some(error);
        outcome
    })
}

/// Refuses an amount that a server cannot be asked to send: it would send less, without an error.
fn check_amount(options: &ClientOptions) -> Result<(), Error> {
    match header(options).amount {
        Amount::Bytes(bytes)
            if options.spec.direction != Direction::Forward && bytes.0 > MAX_AMOUNT_BYTES =>
        {
            Err(Error::Iperf2(format!(
                "a server of iperf 2 sends at most {MAX_AMOUNT_BYTES} bytes on a stream: use -t instead of -n"
            )))
        }
        _ => Ok(()),
    }
}

/// Connects all streams and sends their headers.
fn connect(options: &ClientOptions, observer: &mut dyn Observer) -> Result<PlainTest, Error> {
    let spec = &options.spec;
    let first = addresses(options)?;
    let mut to = None;
    let mut streams = Vec::new();
    for number in 0..spec.streams {
        let candidates = to.map_or_else(|| first.clone(), |to| vec![to]);
        let (socket, peer) = connect_one(options, &candidates, number, observer)?;
        to = Some(peer);
        let header = header(options);
        socket
            .send(&header.encode(false))
            .attempted(|| "send the header of a stream".into())
            .map_err(Error::from)?;
        let copy = |socket: &Socket| socket.try_clone().attempted(|| "duplicate a stream".into());
        match spec.direction {
            Direction::Forward => streams.push((socket, true)),
            Direction::Reverse => streams.push((socket, false)),
            Direction::Both => {
                streams.push((copy(&socket).map_err(Error::from)?, true));
                streams.push((socket, false));
            }
        }
    }
    let announced = match spec.amount {
        report::Amount::Time(time) => Some(time + options.phase_timeout),
        _ => None,
    };
    Ok(PlainTest {
        role: Role::Client,
        peer: to.expect("there is at least one stream"),
        peer_name: Some(options.host.clone()),
        port: options.port,
        spec: spec.clone(),
        streams,
        pin: options.pin.clone(),
        idle_timeout: options.idle_timeout,
        max_duration: announced,
    })
}

/// Connects one stream to the first address that accepts it.
fn connect_one(
    options: &ClientOptions,
    addresses: &[SocketAddr],
    number: u32,
    observer: &mut dyn Observer,
) -> Result<(Socket, SocketAddr), Error> {
    let congestion = options.congestion.as_deref().or(options.spec.congestion.as_deref());
    let mut failed = None;
    for to in addresses {
        let socket = new_socket(*to, from(options, *to, number), options.device.as_deref(), Protocol::Tcp)?;
        let notes = set_up(&socket, to.ip(), &options.spec, true, congestion, End::Client)?;
        match socket
            .connect_timeout(&(*to).into(), options.connect_timeout)
            .attempted(|| format!("connect to {to}"))
        {
            Ok(()) => {
                if number == 0 {
                    notes.iter().for_each(|note| observer.note(note));
                }
                return Ok((socket, *to));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or_else(|| no_address(options, "no address of the requested IP version"), Error::from))
}

#[cfg(test)]
mod tests {
    use iperf3::report::TestSpec;
    use units::Bytes;

    use super::*;

    #[test]
    fn servers_are_not_asked_for_more_than_a_header_can_hold() {
        for (direction, bytes, is_possible) in [
            (Direction::Reverse, MAX_AMOUNT_BYTES, true),
            (Direction::Reverse, MAX_AMOUNT_BYTES + 1, false),
            (Direction::Both, MAX_AMOUNT_BYTES + 1, false),
            (Direction::Forward, MAX_AMOUNT_BYTES + 1, true),
        ] {
            let amount = report::Amount::Bytes(Bytes(bytes));
            let spec = TestSpec { direction, ..TestSpec::new(Protocol::Tcp, amount) };
            let checked = check_amount(&ClientOptions::new("localhost", spec));
            assert_eq!(checked.is_ok(), is_possible, "{direction:?} {bytes}");
        }
    }
}
