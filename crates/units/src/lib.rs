//! Quantities with units, and how they are written: bytes, segments, bit rates, times, and kernel versions.
//!
//! Each quantity is a newtype around a `u64` in its base unit. It parses the spellings that engineers use
//! (`10gbit`, `10Gb/s`, `25MB`, `25MiB`, `20ms`), rejects ambiguous ones with an error that names both
//! meanings, and prints text that parses back to the same value. In JSON a quantity is the bare number.
//!
//! [`Time`] is a span of time, [`Instant`] a point in time. Files write instants as spans since the run's
//! start, so only [`Time`] is parsed.
//!
//! Pure. Only the units that networks need.
//!
//! ```
//! use units::{BitRate, Bytes, Time};
//!
//! let rate: BitRate = "10gbit".parse().unwrap();
//! let rtt: Time = "20 ms".parse().unwrap();
//! assert_eq!(rate.bytes_in(rtt), Bytes(25_000_000));
//! assert_eq!(rate.to_string(), "10 Gb/s");
//!
//! let ambiguous = "25M".parse::<Bytes>().unwrap_err();
//! assert!(ambiguous.to_string().contains("25 MiB = 26,214,400 bytes"));
//! ```

mod bit_rate;
mod bytes;
mod decimal;
mod error;
mod instant;
mod kernel;
mod picoseconds;
mod print;
mod segments;
mod share;
mod time;

pub use bit_rate::BitRate;
pub use bytes::Bytes;
pub use error::ParseError;
pub use instant::Instant;
pub use kernel::{KernelRequirement, KernelVersion, KernelVersionError, sorted_releases};
pub use picoseconds::Picoseconds;
pub use print::{group_digits, three_digits};
pub use segments::Segments;
pub use share::parse_share;
pub use time::Time;
