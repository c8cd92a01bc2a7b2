//! The tests of a point: kinds, parameters, and the role of each end.

mod description;
mod figures;
mod from_reservation;
mod kind;
mod lead;
mod lead_job;
mod options;
mod parameters;
mod path_probe;
mod peer;
mod servers;
mod stream;
mod trace;
mod transfer;

pub(crate) use description::TestDescription;
pub use figures::Figures;
pub(crate) use figures::{FoundRecord, find_record};
pub use kind::Kind;
pub(crate) use lead::{measure, remove_others};
pub(crate) use lead_job::{LeadJob, Measured};
pub(crate) use options::{OptionMistake, TestOptions, explain_refusal, options_of, parameters_of};
pub use parameters::TestParameters;
pub(crate) use peer::{Endpoint, PeerJob, serve};
pub(crate) use servers::{OtherEnd, other_name, server_of};
pub use servers::{ServerProtocol, ServerService};
pub use transfer::TransferReport;
