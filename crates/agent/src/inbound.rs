//! The events that arrive at the agent's loop. Connections, the control socket, the clock, and the threads of
//! tests and alerts send them.

use std::net::IpAddr;

use reservation::{PointName, ReservationId};
use tokio::sync::oneshot;

use crate::{
    alert::Sent,
    archive::CauseChange,
    control::{Reply, Request},
    frame::Frame,
    test::{Endpoint, Measured},
    users::LocalUser,
};

/// An event that arrives at the loop.
pub(crate) enum Inbound {
    /// A connection with a point was opened.
    Connected {
        /// The point.
        name: PointName,
        /// Its address.
        ip: IpAddr,
    },
    /// A frame of an authenticated point.
    Frame {
        /// The point.
        from: PointName,
        /// The frame.
        frame: Frame,
    },
    /// A request to join, with an invitation.
    Join {
        /// The invitation.
        invitation: String,
        /// Its source address.
        ip: IpAddr,
        /// The request.
        frame: Frame,
        /// Receives the reply.
        reply: oneshot::Sender<Frame>,
    },
    /// A request of a local user.
    Control {
        /// The user.
        user: LocalUser,
        /// The request.
        request: Request,
        /// Receives the reply.
        reply: oneshot::Sender<Reply>,
    },
    /// UTC was stepped, or may have been.
    ClockStepped,
    /// The server of a test is open.
    Serving {
        /// The reservation.
        id: ReservationId,
        /// The number of its run.
        run: u64,
        /// The address of the server.
        endpoint: Endpoint,
    },
    /// The common archive has stored the rows of the spool up to this number.
    Forwarded {
        /// The number.
        number: i64,
    },
    /// An alert was sent, or could not be sent.
    Alerted {
        /// The change that it reports.
        change: CauseChange,
        /// The receivers that have accepted it.
        sent: Sent,
    },
    /// Alertmanager has accepted the alerts, or could not be reached.
    AlertmanagerReplied {
        /// Why not all were accepted.
        error: Option<String>,
    },
    /// A test has ended.
    Ended {
        /// The reservation.
        id: ReservationId,
        /// The number of its run.
        run: u64,
        /// Its result.
        ended: Box<Ended>,
    },
}

/// How a test ended.
pub(crate) enum Ended {
    /// The end at the lead, with its measurement.
    Lead(Measured),
    /// The end at the peer; an error if its server failed.
    Peer(Result<(), String>),
}
