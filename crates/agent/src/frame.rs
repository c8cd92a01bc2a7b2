//! The frames that agents exchange. [`framing`](crate::framing) converts them to bytes and back.

use reservation::{Message, ReservationId};
use serde::{Deserialize, Serialize};

use crate::{Announcement, Members, TestRow, control::CalendarReport, test::Endpoint};

/// The messages that agents send to each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "frame")]
pub(crate) enum Frame {
    /// To the authority: the sender has this version of the list of members, and this entry in the directory.
    Hello {
        /// The version.
        members: u64,
        /// The entry; `None` from earlier versions.
        #[serde(default)]
        announcement: Option<Box<Announcement>>,
    },
    /// About a reservation.
    Message {
        /// The message.
        message: Box<Message>,
    },
    /// Lead to peer: request for the address of this test's server.
    Endpoint {
        /// The reservation.
        id: ReservationId,
    },
    /// Peer to lead: the server's address.
    Serving {
        /// The reservation.
        id: ReservationId,
        /// Port and secret.
        endpoint: Endpoint,
    },
    /// Lead to the others: the result of a test, which is over.
    Result {
        /// The result.
        row: Box<TestRow>,
    },
    /// Reply to `Result`: it is stored.
    Stored {
        /// The reservation.
        id: String,
    },
    /// Authority to members: the list of members.
    Members {
        /// The list.
        members: Members,
    },
    /// Request for the occupied slots.
    CalendarWanted {
        /// How far into the future, seconds.
        seconds: u64,
    },
    /// Reply to `CalendarWanted`.
    Calendar {
        /// The calendar.
        report: Box<CalendarReport>,
    },
    /// Member to authority: certify this key, as in the certificate that will expire.
    Renew {
        /// The public key, hexadecimal.
        public_key: String,
    },
    /// Reply to `Renew`.
    Renewed {
        /// The certificate, base64.
        certificate: String,
    },
    /// With an invitation: certify this key.
    Join {
        /// The public key, hexadecimal.
        public_key: String,
        /// How other points reach the new one; `None`: by the address that this connection comes from.
        address: Option<String>,
        /// The port at which it listens.
        port: u16,
    },
    /// Reply to `Join`.
    Joined {
        /// The certificate, base64.
        certificate: String,
        /// The list of members.
        members: Members,
    },
    /// Reply to `Join` or `CalendarWanted`: refused. Points of earlier versions ignore the latter.
    Refused {
        /// The reason.
        text: String,
    },
}
