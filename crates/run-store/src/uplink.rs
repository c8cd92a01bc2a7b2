//! The uplink that all uploads of a client share.
//!
//! Uploads at the same time share the rate of the uplink, so the deadline of each depends on their number. It
//! is limited, and the deadline assumes that the maximum number of uploads shares the uplink during the whole
//! upload. An uplink with the lowest accepted rate is thus fast enough for any number of files of any size.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum number of uploads at once.
const MAX_UPLOADS: u32 = 16;
/// Maximum number of bytes of uploads at once. They are in memory.
const MAX_BYTES: u64 = 64 << 20;
/// The lowest accepted rate of the uplink, bytes per second.
const MIN_RATE: u64 = 100_000;

/// Limits the number and the size of simultaneous uploads. They begin in the order of their requests.
#[derive(Debug)]
pub(crate) struct Uplink(Semaphore);

impl Uplink {
    pub(crate) fn new() -> Self {
        Uplink(Semaphore::new(MAX_UPLOADS as usize))
    }

    /// Waits until an upload of `bytes` may begin. It must end before the result is dropped.
    pub(crate) async fn share(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        // Fails only if the semaphore is closed, which it never is.
        self.0.acquire_many(permits(bytes)).await.ok()
    }
}

/// The number of permits of an upload: at least one, and one for each part of [`MAX_BYTES`].
fn permits(bytes: u64) -> u32 {
    let bytes_per_permit = MAX_BYTES / u64::from(MAX_UPLOADS);
    bytes.div_ceil(bytes_per_permit).clamp(1, MAX_UPLOADS.into()) as u32
}

/// The maximum time in which a request with this number of bytes is sent.
pub(crate) fn upload_time(bytes: u64) -> Duration {
    Duration::from_secs((bytes * u64::from(MAX_UPLOADS)).div_ceil(MIN_RATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// An upload of a test: its size, the bytes to send, and when it began in ms.
    #[derive(Debug)]
    struct Upload {
        bytes: u64,
        remaining: f64,
        begun_ms: u64,
    }

    /// Sends all uploads in this order over an uplink of the lowest rate, which those at once share equally.
    /// Returns the largest share of its deadline that an upload needs, and the maximum number of uploads and
    /// of bytes at once.
    fn send(sizes: &[u64]) -> (f64, usize, u64) {
        const STEP_MS: u64 = 100;
        let (mut waiting, mut active) = (sizes.iter().peekable(), Vec::<Upload>::new());
        let (mut free, mut now_ms) = (MAX_UPLOADS, 0);
        let (mut worst, mut most, mut most_bytes) = (0.0_f64, 0, 0);
        loop {
            while let Some(&bytes) = waiting.next_if(|bytes| permits(**bytes) <= free) {
                free -= permits(bytes);
                active.push(Upload { bytes, remaining: bytes as f64, begun_ms: now_ms });
            }
            if active.is_empty() {
                return (worst, most, most_bytes);
            }
            most = most.max(active.len());
            most_bytes = most_bytes.max(active.iter().map(|upload| upload.bytes).sum());
            let sent = MIN_RATE as f64 * STEP_MS as f64 / 1e3 / active.len() as f64;
            now_ms += STEP_MS;
            for upload in &mut active {
                upload.remaining -= sent;
                let elapsed_s = (now_ms - upload.begun_ms) as f64 / 1e3;
                // Rates are constant within a step, so a small upload takes a whole one.
                worst =
                    worst.max(elapsed_s / (upload_time(upload.bytes).as_secs_f64() + STEP_MS as f64 / 1e3));
            }
            active.retain(|upload| {
                let is_active = upload.remaining > 0.0;
                free += if is_active { 0 } else { permits(upload.bytes) };
                is_active
            });
        }
    }

    #[test]
    fn every_upload_over_a_slow_uplink_ends_before_its_deadline() {
        let mixed: Vec<u64> = (0..400).map(|n| if n % 9 == 0 { 8 * MIB } else { 20_000 + n * 700 }).collect();
        let cases =
            [vec![8 * MIB; 40], vec![1; 100], vec![500_000; 60], vec![100 * MIB, 1, 100 * MIB], mixed];
        for sizes in cases {
            let (worst, most, bytes) = send(&sizes);
            assert!(worst <= 1.0 && worst > 0.02, "{worst} of the deadline, {sizes:?}");
            assert!(most <= MAX_UPLOADS as usize, "{most} at once");
            assert!(bytes <= MAX_BYTES.max(*sizes.iter().max().unwrap()), "{bytes} at once");
        }
    }

    #[test]
    fn an_upload_waits_while_others_use_the_uplink() {
        let uplink = Uplink::new();
        let begins = |bytes| futures_util::FutureExt::now_or_never(uplink.share(bytes)).flatten();
        let parts: Vec<_> = (0..8).map(|_| begins(8 * MIB).expect("space")).collect();
        assert!(begins(1).is_none());
        drop(parts);
        let small: Vec<_> = (0..16).map(|_| begins(1).expect("space")).collect();
        assert!(begins(0).is_none());
        drop(small);
        assert!(begins(1000 * MIB).is_some(), "an upload of any size begins");
    }
}
