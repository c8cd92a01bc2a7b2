//! A measurement point as a program: reserves slots with other points, tests in them, and keeps the results.
//!
//! - [`create_mesh`], [`join_mesh`]: the files of a new point; [`Authority`] and [`Invitation`]: membership
//!   of the mesh
//! - [`Config`]: its configuration
//! - [`run`]: the agent
//! - [`Client`]: a local user's access to it; [`serve_interface`]: the access of browsers and programs
//! - [`CalendarFile`]: the events of a [`reservation::Point`] on the disk
//!
//! The agreement on slots is in [`reservation`], limits are in [`limits`], tests in [`measurement`] and
//! [`stamp`].

mod address;
mod alert;
mod alertmanager;
mod archive;
mod audit;
#[doc(hidden)]
pub mod benching;
mod calendar_file;
mod cause;
mod clock;
mod clock_steps;
mod config;
mod control;
mod control_server;
mod daemon;
mod database;
mod directory;
mod error;
mod event_loop;
mod files;
mod frame;
mod framing;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod http_client;
mod inbound;
mod init;
mod mesh;
mod metrics;
mod network;
mod percent_encoding;
mod planning;
mod psconfig;
mod received;
mod reload_handle;
mod roles;
mod rules;
mod session;
mod sqlite;
mod step_observer;
mod stop_handle;
mod template;
mod test;
mod test_row;
mod texts;
mod tokens;
mod trust;
mod users;

pub use alert::Alerts;
pub use alertmanager::Alertmanager;
pub use archive::{Acknowledgement, CauseChange, Filter, HourRow, Mute, Retention, TestCounts};
pub use calendar_file::{CalendarFile, Error as CalendarError};
pub use clock::Clock;
pub use config::{Config, DEFAULT_PORT, HttpInterface, ReadAccess};
pub use control::{
    AlertsReport, CalendarReport, Client, Explained, MemberStatus, NewReservation, PairName, SlotReport,
    Status, TaskStatus,
};
pub use daemon::{run, run_reloadable};
pub use database::{DatabaseError, PostgresAddress};
pub use directory::{DirectoryDocument, DirectoryPoint, Lookup, LookupTexts, NearestHop, perfsonar_hosts};
pub use error::Error;
pub use http::{
    AcknowledgeRequest, AlertsDocument, CalendarDocument, Cancellation, MeshDocument, MeshPair, MeshPoint,
    MuteRequest, NamedChange, PairDocument, PairState, ReservationsDocument, ResultsDocument, TransferResult,
    known_mesh, serve_interface,
};
pub use init::{CONFIG_FILE, create_mesh, join_mesh};
pub use mesh::{
    Allowance, Announcement, Authority, Coordinates, Identity, Invitation, Member, Members, Place, check_name,
};
pub use metrics::{MetricsCredentials, MetricsPush, MetricsReceiver, PushProtocol};
pub use network::{JoinRequest, join};
pub use planning::{PlanDocument, PlannedSetting, PlannedSlot, plan_transfer};
pub use psconfig::{PsconfigExport, PsconfigImport, export_psconfig, import_psconfig};
pub use reload_handle::ReloadHandle;
pub use roles::{Role, Roles};
pub use session::{DeadlineState, Scan, Session, SessionSlot};
pub use step_observer::{Moment, NoObserver, StepObserver};
pub use stop_handle::StopHandle;
pub use test::{Figures, Kind, ServerProtocol, ServerService, TestParameters, TransferReport};
pub use test_row::{State, TestRow};
pub use tokens::{Scope, TokenEntry, Tokens};
