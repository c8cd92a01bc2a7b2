//! What limits TCP between two hosts: which measurements to make ([`diagnose`]), and what they say ([`rank`]).
//!
//! Pure: whoever implements [`Path`] measures. So the same diagnosis is made of real hosts, of a lab's, and of simulated paths whose
//! faults are known.

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
mod twin;

pub use change::Change;
pub use limit::{Doubt, Kind, Limit, Ranking, Together};
pub use losses::Losses;
pub use native::Native;
pub use observed::{Capacity, Datagrams, Mtu, Observed, is_busy};
pub use path::{Arrived, Burst, DatagramPlan, Path, RoundTrips, TcpPlan, TcpSeen};
pub use procedure::{Options, again, diagnose};
pub use rank::rank;
