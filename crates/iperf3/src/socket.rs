//! The options of a data stream's socket, and the values that the kernel has set.
//!
//! A client sets them before it connects. A server has one listener for all its clients, so it sets them on
//! the accepted connection, before any data. Linux accepts all of them then, with one pitfall: if SO_RCVBUF
//! is set after the handshake, the window stays clamped to that of the default buffer
//! (`tcp_init_buffer_space`, net/ipv4/tcp_input.c), and a buffer whose size was set is never autotuned.
//! TCP_WINDOW_CLAMP raises that clamp. The window scale is no problem: listeners offer one for the maximum of
//! `tcp_rmem` and `rmem_max` (`tcp_select_initial_window`).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use socket2::Socket;
use traffic::{Attempted, Error, sys};
use units::Bytes;

use crate::{
    report::{Protocol, TestSpec},
    udp_stream,
};

/// Which end of a stream this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The socket is not connected yet.
    Client,
    /// The socket was accepted.
    Server,
}

/// Sets the options of `spec` on a socket that `sends` data or receives it; `congestion` is the kernel's name
/// of the congestion control. Returns notes for the user: an unknown congestion control is an error at a
/// client, and a note at a server, which then uses its default.
///
/// # Errors
/// If an option cannot be set, or at a client the congestion control is unknown.
pub fn set_up(
    socket: &Socket,
    peer: IpAddr,
    spec: &TestSpec,
    sends: bool,
    congestion: Option<&str>,
    end: End,
) -> Result<Vec<String>, Error> {
    let mut notes = set_buffers(socket, spec, sends, end)?;
    set_tos(socket, peer, spec.tos)?;
    if let Some(rate) = spec.fq_rate {
        sys::set_max_pacing_rate(socket, rate.0 / 8).attempted(|| format!("pace at {rate}"))?;
    }
    if spec.protocol == Protocol::Udp {
        if spec.dont_fragment && peer.to_canonical().is_ipv4() {
            udp_stream::forbid_fragments(socket)?;
        }
        return Ok(notes);
    }
    if let Some(mss) = spec.mss {
        socket.set_tcp_mss(mss).attempted(|| format!("set an MSS of {mss} bytes"))?;
    }
    if spec.nodelay {
        socket.set_tcp_nodelay(true).attempted(|| "set TCP_NODELAY".into())?;
    }
    if let Some(name) = congestion {
        let set = socket
            .set_tcp_congestion(name.as_bytes())
            .attempted(|| format!("use congestion control {name:?}"));
        match (set, end) {
            (Err(error), End::Client) => return Err(error),
            (Err(error), End::Server) => notes.push(error.to_string()),
            (Ok(()), _) => {}
        }
    }
    Ok(notes)
}

/// Sets IP_TOS or IPV6_TCLASS. 0 is the default and not set.
pub(crate) fn set_tos(socket: &Socket, peer: IpAddr, tos: u8) -> Result<(), Error> {
    if tos == 0 {
        return Ok(());
    }
    let tos = u32::from(tos);
    let set = match peer {
        IpAddr::V4(_) => socket.set_tos_v4(tos),
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => socket.set_tos_v4(tos),
        IpAddr::V6(_) => socket.set_tclass_v6(tos),
    };
    set.attempted(|| format!("set a type of service of {tos}"))
}

/// Unacknowledged data ends a TCP connection after this time (RFC 793's user timeout, tcp(7)); whole
/// milliseconds.
pub(crate) fn set_send_timeout(socket: &Socket, timeout: Duration, protocol: Protocol) -> Result<(), Error> {
    if protocol == Protocol::Udp {
        return Ok(());
    }
    socket
        .set_tcp_user_timeout(Some(timeout))
        .attempted(|| format!("set a user timeout of {} ms", timeout.as_millis()))
}

/// Returns the address to connect to with the requested IPv6 flow label (RFC 6437), which it leases from the
/// kernel; IPv4 has no flow labels.
pub(crate) fn labelled(socket: &Socket, to: SocketAddr, label: Option<u32>) -> Result<SocketAddr, Error> {
    let (SocketAddr::V6(mut to), Some(label)) = (to, label) else { return Ok(to) };
    sys::lease_flow_label(socket, *to.ip(), label).attempted(|| format!("lease the flow label {label}"))?;
    to.set_flowinfo(label.to_be());
    Ok(to.into())
}

/// Sets the requested sizes of the buffers; returns notes about sizes that the kernel limited.
fn set_buffers(socket: &Socket, spec: &TestSpec, sends: bool, end: End) -> Result<Vec<String>, Error> {
    let (own_send, own_receive) = if sends { (spec.send_buffer, None) } else { (None, spec.receive_buffer) };
    let send = own_send.or(spec.window);
    let receive = own_receive.or(spec.window);
    let what = |bytes: Bytes| move || format!("set a socket buffer of {} bytes", bytes.0);
    let size = |bytes: Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
    if let Some(bytes) = send {
        socket.set_send_buffer_size(size(bytes)).attempted(what(bytes))?;
    }
    if let Some(bytes) = receive {
        socket.set_recv_buffer_size(size(bytes)).attempted(what(bytes))?;
    }
    let (actual_send, actual_receive) = sizes(socket)?;
    let mut notes = Vec::new();
    for (requested, own, actual, sysctl, option) in [
        (send, own_send, actual_send, "net.core.wmem_max", "SO_SNDBUF"),
        (receive, own_receive, actual_receive, "net.core.rmem_max", "SO_RCVBUF"),
    ] {
        let Some(Bytes(requested)) = requested else { continue };
        // The kernel doubles the requested value to include its own overhead.
        if actual < requested.saturating_mul(2) {
            let who = if own.is_some() { "the flow" } else { "-w" };
            notes.push(format!(
                "{who} requests {requested} bytes, but the kernel set {} ({option} is {actual}, which is twice that); to \
                 allow more: sysctl -w {sysctl}={requested}",
                actual / 2
            ));
        }
    }
    if receive.is_some() && end == End::Server && spec.protocol == Protocol::Tcp {
        let clamp = i32::try_from(actual_receive).unwrap_or(i32::MAX);
        os::set_option(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, clamp)
            .attempted(|| "raise the window clamp".into())?;
    }
    Ok(notes)
}

/// SO_SNDBUF and SO_RCVBUF as the kernel returns them: twice the requested values.
pub(crate) fn sizes(socket: &Socket) -> Result<(u64, u64), Error> {
    let what = || "read the sizes of the socket's buffers".to_string();
    Ok((socket.send_buffer_size().attempted(what)? as u64, socket.recv_buffer_size().attempted(what)? as u64))
}

/// The congestion control that a TCP socket uses.
pub(crate) fn congestion(socket: &Socket) -> Option<String> {
    let name = socket.tcp_congestion().ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_string())
}
