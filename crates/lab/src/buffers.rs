//! A pool of reusable buffers for frames, which bounds memory to about the bytes in flight.

use scenario::Link;

use crate::{
    frame::{FRAME_BYTES, Frame},
    sys,
};

/// Frames up to this size (all but super-frames and jumbo frames) are copied to a small buffer.
const SMALL_BYTES: usize = 2048;
/// Number of large buffers allocated together: memory that no frame has used yet costs nothing.
const GROWTH: usize = 64;
/// Maximum number of idle buffers of each size.
const MAX_IDLE: usize = 4096;
/// Maximum number of large buffers that are prepared: 134 MB.
const MAX_PREPARED: usize = 2048;

/// Idle buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    large: Vec<Vec<u8>>,
    small: Vec<Vec<u8>>,
}

impl Buffers {
    /// Allocates buffers for the bytes that these links and their queues hold, and touches their pages. On a
    /// virtual machine the first use of each 2 MB may have to wait for the hypervisor, which stalls the
    /// thread for 5 ms.
    pub(crate) fn for_links(links: &[Link]) -> Self {
        let total_bytes: u64 = links.iter().map(Self::held_by).fold(0, u64::saturating_add);
        let count = (total_bytes / FRAME_BYTES as u64).min(MAX_PREPARED as u64) as usize;
        let mut buffers = Buffers::default();
        while buffers.large.len() < count {
            buffers.grow();
        }
        buffers.large.iter_mut().for_each(|buffer| buffer.fill(1));
        buffers
    }

    /// Bytes in flight on a link and in its queues, in both directions; 0 for directions without a rate.
    fn held_by(link: &Link) -> u64 {
        let pipes = [&link.forward, &link.backward].into_iter();
        let pipe_bytes = |pipe: &net::PipeSpec| {
            let in_flight = pipe.rate.mean()?.bytes_in(pipe.delay).0;
            let queued = pipe.queue.bytes(SMALL_BYTES as u64).map_or(0, |bytes| bytes.0);
            Some(in_flight.saturating_add(queued))
        };
        pipes.filter_map(pipe_bytes).fold(0, u64::saturating_add)
    }

    fn grow(&mut self) {
        let first = self.large.len();
        self.large.extend((0..GROWTH).map(|_| vec![0; FRAME_BYTES]));
        sys::advise_huge_pages(&self.large[first..]);
    }

    /// Takes a buffer that any frame fits into.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.large.is_empty() {
            self.grow();
        }
        self.large.pop().unwrap_or_else(|| vec![0; FRAME_BYTES])
    }

    /// Creates a frame from the first `len` bytes of `buffer`, copied to a small buffer if it fits.
    /// `None` if these bytes are not a frame.
    pub(crate) fn frame(&mut self, buffer: Vec<u8>, len: usize) -> Option<Frame> {
        let buffer = if len <= SMALL_BYTES {
            let mut small = self.small.pop().unwrap_or_else(|| vec![0; SMALL_BYTES]);
            small[..len].copy_from_slice(&buffer[..len]);
            self.put(buffer);
            small
        } else {
            buffer
        };
        Frame::new(buffer, len).map_err(|unused| self.put(unused)).ok()
    }

    /// Returns a frame's buffer to the pool.
    pub(crate) fn recycle(&mut self, frame: Frame) {
        self.put(frame.into_buffer());
    }

    /// Returns an unused buffer to the pool.
    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        // Buffers of parts of split frames have other sizes, so they are freed.
        let pool = match buffer.len() {
            FRAME_BYTES => &mut self.large,
            SMALL_BYTES => &mut self.small,
            _ => return,
        };
        if pool.len() < MAX_IDLE {
            pool.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(link: &str) -> usize {
        let text = format!(
            "hosts.a.address = '10.0.0.1/24'\nhosts.b.address = '10.0.0.2/24'\nduration = '1s'\n\
             flows = [{{ name = 'f', from = 'a', to = 'b' }}]\n[[links]]\nends = ['a', 'b']\n{link}"
        );
        let file = scenario::ScenarioFile::parse("links.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let scenario = file.resolve(None, &[]).unwrap_or_else(|e| panic!("{e}"));
        Buffers::for_links(&scenario.links).large.len()
    }

    #[test]
    fn buffers_are_prepared_for_the_bytes_that_links_hold() {
        // 25 MB in flight, 50 MB in the queue, rounded up to multiples of 64 buffers.
        let fast = "forward = { rate = '10gbit', delay = '20ms', queue = '50MB' }";
        assert_eq!(prepared(fast), 75_000_000 / FRAME_BYTES / GROWTH * GROWTH + GROWTH);
        assert_eq!(prepared("both = { delay = '20ms' }"), 0);
        assert_eq!(prepared("both = { rate = '1mbit', delay = '20ms', queue = '10kB' }"), 0);
        assert_eq!(prepared("both = { rate = '100gbit', delay = '1s', queue = '1GB' }"), MAX_PREPARED);
    }

    #[test]
    fn buffers_return_to_the_pool_of_their_size() {
        let mut buffers = Buffers::default();
        for _ in 0..3 {
            let large = buffers.take();
            let small = buffers.frame(large, 100).unwrap();
            let large = buffers.take();
            let big = buffers.frame(large, 9000).unwrap();
            assert_eq!((small.bytes().len(), big.bytes().len()), (100, 9000));
            buffers.recycle(small);
            buffers.recycle(big);
        }
        assert_eq!((buffers.large.len(), buffers.small.len()), (GROWTH, 1));
        assert!(buffers.frame(vec![0; FRAME_BYTES], 5).is_none());
        assert_eq!(buffers.small.len(), 1, "the buffer of an invalid frame returns too");
    }
}
