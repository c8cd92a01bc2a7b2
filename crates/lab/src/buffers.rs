//! Buffers for frames, used again and again, so that memory stays near what is in flight.

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

/// Idle buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    large: Vec<Vec<u8>>,
    small: Vec<Vec<u8>>,
}

impl Buffers {
    /// A buffer that any frame fits into.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.large.is_empty() {
            self.large.extend((0..GROWTH).map(|_| vec![0; FRAME_BYTES]));
            sys::advise_huge_pages(&self.large);
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
