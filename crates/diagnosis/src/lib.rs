//! Finds what limits TCP between two hosts: makes the necessary measurements ([`diagnose`]) and ranks the
//! limits ([`rank`]).
//!
//! No I/O: an implementation of [`Path`] measures. The same diagnosis runs on real hosts, labs, and simulated
//! paths with known faults.

mod capacity;
mod change;
mod limit;
mod losses;
mod native;
mod observed;
mod path;
mod predict;
mod procedure;
mod rank;
mod simulated_path;

pub use capacity::lost_at_once;
pub use change::{Change, Variation};
pub use limit::{Doubt, JointRemoval, Kind, Limit, Ranking};
pub use losses::Losses;
pub use native::Native;
pub use observed::{Capacity, Datagrams, Mtu, Observed, is_busy};
pub use path::{Arrived, Burst, DatagramPlan, Path, RoundTrips, TcpPlan, TcpResult};
pub use procedure::{Load, Options, diagnose, repeat};
pub use rank::rank;
