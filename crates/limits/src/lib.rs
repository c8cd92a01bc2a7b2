//! The limits of a measurement point: a tree of classes of users and addresses as in bwctl's `bwctld.limits`,
//! and daily byte budgets of links.
//!
//! A request belongs to one class: that of its authenticated user, else that of the longest prefix that
//! contains its address, else the default. A role can name the class of its users. The request must pass the
//! limits of this class and of all its ancestors. A class inherits the limits of its parent and may only
//! narrow them.
//!
//! ```
//! use limits::{Limits, TestRequest, Usage};
//!
//! let limits: Limits = r#"
//!     [classes.root]
//!     max_duration = "60s"
//!     allow_open = true
//!     [classes.guests]
//!     parent = "root"
//!     max_duration = "10s"
//!     [assign]
//!     default = "guests"
//! "#
//! .parse()
//! .unwrap();
//! let request = TestRequest { address: "192.0.2.7".parse().ok(), ..TestRequest::parse_test("tcp,30s").unwrap() };
//! let decision = limits.decide(&request, &Usage::default());
//! assert!(!decision.is_allowed());
//! assert_eq!(decision.to_string(), "refused by max_duration of class guests: 30 s requested, at most 10 s");
//! ```

mod admission;
mod bwctl;
mod decision;
mod error;
mod file;
mod net;
mod print;
mod test_request;
mod tree;

pub use admission::Enforced;
pub use bwctl::{ImportNote, Imported, import};
pub use decision::{Check, Decision, Pending, Usage};
pub use error::Error;
pub use net::{Net, NetError};
pub use test_request::{TestRequest, TestRequestError};
pub use tree::{AssignedRole, Class, Limits, Link};
