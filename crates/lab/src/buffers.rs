//! Buffers for frames, used again and again, so that memory stays near what is in flight.

use scenario::Link;

use crate::{
    frame::{FRAME_BYTES, Frame},
    sys,
};

/// Frames up to this size (all but super-frames and jumbo frames) move to a small buffer.
const SMALL_BYTES: usize = 2048;
/// Large buffers made at once, side by side: memory that no frame has used yet costs nothing.
const GROWTH: usize = 64;
/// Idle buffers kept of each size.
const KEPT: usize = 4096;
/// Large buffers that are prepared at most: 134 MB.
const PREPARED: usize = 2048;

/// Idle buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    large: Vec<Vec<u8>>,
    small: Vec<Vec<u8>>,
}

impl Buffers {
    /// Buffers for what these links and their queues hold, with memory behind them. A virtual machine's host may have to find
    /// each 2 MB first when they are used, which stops the thread that uses them for 5 ms.
    pub(crate) fn for_links(links: &[Link]) -> Self {
        let held: u64 = links.iter().map(Self::held_by).fold(0, u64::saturating_add);
        let count = (held / FRAME_BYTES as u64).min(PREPARED as u64) as usize;
        let mut buffers = Buffers::default();
        while buffers.large.len() < count {
            buffers.grow();
        }
        buffers.large.iter_mut().for_each(|buffer| buffer.fill(1));
        buffers
    }

    /// Bytes on a link and in its queues, both ways, where it has a rate.
    fn held_by(link: &Link) -> u64 {
        let pipes = [&link.forward, &link.backward].into_iter();
        let of_pipe = |pipe: &net::PipeSpec| {
            let on_the_way = pipe.rate.mean()?.bytes_in(pipe.delay).0;
            let queued = pipe.queue.bytes(SMALL_BYTES as u64).map_or(0, |bytes| bytes.0);
            Some(on_the_way.saturating_add(queued))
        };
        pipes.filter_map(of_pipe).fold(0, u64::saturating_add)
    }

    fn grow(&mut self) {
        let first = self.large.len();
        self.large.extend((0..GROWTH).map(|_| vec![0; FRAME_BYTES]));
        sys::advise_huge_pages(&self.large[first..]);
    }

    /// A buffer that any frame fits into.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.large.is_empty() {
            self.grow();
        }
        self.large.pop().unwrap_or_else(|| vec![0; FRAME_BYTES])
    }

    /// Makes a frame of the first `len` bytes of `buffer`, in a small buffer if it fits into one.
    /// `None` where that is no frame.
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

    /// Takes a frame's buffer back.
    pub(crate) fn recycle(&mut self, frame: Frame) {
        self.put(frame.into_buffer());
    }

    /// Takes an unused buffer back.
    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        // Parts of split frames have sizes of their own and are freed.
        let pool = match buffer.len() {
            FRAME_BYTES => &mut self.large,
            SMALL_BYTES => &mut self.small,
            _ => return,
        };
        if pool.len() < KEPT {
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
    fn what_the_links_hold_is_prepared() {
        // 25 MB on the way, 50 MB in the queue, in whole growths of 64.
        let fast = "forward = { rate = '10gbit', delay = '20ms', queue = '50MB' }";
        assert_eq!(prepared(fast), 75_000_000 / FRAME_BYTES / GROWTH * GROWTH + GROWTH);
        assert_eq!(prepared("both = { delay = '20ms' }"), 0);
        assert_eq!(prepared("both = { rate = '1mbit', delay = '20ms', queue = '10kB' }"), 0);
        assert_eq!(prepared("both = { rate = '100gbit', delay = '1s', queue = '1GB' }"), PREPARED);
    }

    #[test]
    fn buffers_come_back_and_sizes_do_not_mix() {
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
        assert_eq!(buffers.small.len(), 1, "the buffer of a frame that is none comes back too");
    }
}
