//! Reservation of measurement slots between two points.
//!
//! Each point owns its calendar. A [`Point`] is a state machine without I/O: it takes messages, requests and
//! timeouts with the current [`Now`], and returns a [`Step`]. The caller makes the step's events durable
//! first, then sends its messages and starts its tests. A point that crashes between any two of these is
//! rebuilt from its events by [`Point::recover`].
//!
//! Two points agree as bwctl's did: the lead proposes the first slot that is free in its calendar, the peer
//! holds it or names the next one that is free in its own, and the lead confirms. A hold ends by itself.
//! Slots are padded by both clocks' errors and two round trips. `docs/agent.md` has the protocol and its
//! guarantees.
//!
//! ```
//! use reservation::{AdmitAll, Class, Now, Phase, Point, Settings, Spec, Test};
//! use units::{Instant, Time};
//!
//! let mut point = Point::new("a".into(), Settings::default());
//! let now = Now { steady: Instant::ZERO, utc: Instant::from_secs(1_800_000_000), error: Time::from_millis(1) };
//! let spec = Spec {
//!     peer: Some("b".into()),
//!     user: None,
//!     test: Test { kind: "throughput".into(), ..Test::default() },
//!     class: Class::Exclusive,
//!     priority: 0,
//!     duration: Time::from_secs(30),
//!     earliest: now.utc,
//!     latest: now.utc + Time::from_secs(600),
//! };
//! let (id, step) = point.reserve(now, spec, &AdmitAll);
//! assert_eq!(step.messages.len(), 1, "a proposal to b");
//! assert!(matches!(point.reservation(&id).unwrap().phase, Phase::Held { .. }));
//! ```

mod admission;
mod calendar;
mod clock;
mod event;
mod ids;
mod message;
mod outcome;
mod point;
mod recurrence;
mod request;
mod reservation;
mod round_robin;
mod settings;
mod state;
mod step;

pub use admission::{Admission, AdmitAll, Candidate};
pub use calendar::{BusyReport, BusySlot, Calendar, Occupancy, Occupied, Overlap};
pub use clock::Now;
pub use event::Event;
pub use ids::{PointName, ReservationId, TaskName};
pub use message::{Body, Message};
pub use outcome::{Outcome, Reason, utc_text};
pub use point::Point;
pub use recurrence::{Occurrence, Recurrence, Task};
pub use request::{Class, Request, Spec, Test, Transport};
pub use reservation::{Phase, Reservation, Role, Slot};
pub use round_robin::round_robin_turn;
pub use settings::Settings;
pub use state::{InconsistentEvents, PointState};
pub use step::{Action, Step};
