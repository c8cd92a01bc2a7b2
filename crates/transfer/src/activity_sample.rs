//! A sample of the waits and the threads of one end of a session.

use serde::{Deserialize, Serialize};

/// How long an end had waited, and how long its threads had been busy, until an instant. Threads are busy
/// while they run or wait for a processor; `None`: there is no such thread, or the kernel does not count its
/// time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivitySample {
    /// Time since the data connection was opened.
    pub time_us: i64,
    /// It waited until its files were read or written.
    pub file_wait_us: i64,
    /// It waited for replies of the other end about files.
    pub reply_wait_us: i64,
    /// The thread that sends or receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_busy_us: Option<i64>,
    /// The threads that read or write files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_busy_us: Option<i64>,
    /// The threads that only hash files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_busy_us: Option<i64>,
}
