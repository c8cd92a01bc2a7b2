//! TWAMP (RFC 5357) as a client: the control connection starts and ends the reflector, and the packets are
//! those of STAMP.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use os::realtime_ns;
use traffic::Error;

use crate::{
    control::{ControlProtocol, SessionRequest},
    control_connection::ControlConnection,
    sender::{MeasuredPackets, SenderOptions, exchange},
    test_socket,
    wire::{SHORTEST_REQUEST_BYTES, ntp, ntp_interval},
};

/// Measures round trips by TWAMP.
pub(crate) fn measure_packets(
    options: &SenderOptions,
    stop: &AtomicBool,
    on_reply: &mut dyn FnMut(usize),
) -> Result<MeasuredPackets, Error> {
    let options = SenderOptions { key: None, session: 0, ..options.clone() };
    let mut connection = ControlConnection::open(ControlProtocol::Twamp, options.to, stop)?;
    let socket = test_socket::open(connection.own_end()?)?;
    // Unspecified addresses are those of the control connection, which a translator of addresses may have
    // changed (RFC 5357 section 3.5).
    let anywhere = test_socket::unspecified(options.to.ip()).ip();
    // Some servers insist on a port; this one is as good as any.
    let port = test_socket::port(&socket);
    let request = SessionRequest {
        two_way: true,
        server_sends: false,
        server_receives: false,
        slots: 0,
        packets: 0,
        sender: SocketAddr::new(anywhere, port),
        receiver: SocketAddr::new(anywhere, port),
        sid: [0; 16],
        padding_bytes: (options.payload_bytes() - SHORTEST_REQUEST_BYTES) as u32,
        start: ntp(realtime_ns()),
        timeout: ntp_interval(options.timeout),
        type_p: 0,
    };
    let accepted = connection.request(request, &[])?;
    connection.start()?;
    let to = connection.server_end(accepted.port);
    let measured = exchange(&socket, &SenderOptions { to, ..options }, stop, on_reply)?;
    let message = connection.control.stop_two_way(1);
    // The packets have been measured, so it does not matter if the server has closed early.
    let _ = connection.send(&message);
    Ok(measured)
}
