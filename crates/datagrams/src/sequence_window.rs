//! Records which sequence numbers have arrived: a sliding bitmap, like the anti-replay window of RFC 4303
//! section 3.4.3.

use std::collections::VecDeque;

/// How a sequence number relates to those that arrived before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceOrder {
    /// It is the highest so far.
    Newest,
    /// A higher number arrived before.
    Late,
    /// It arrived before, or is older than the window.
    Duplicate,
}

/// The sequence numbers that have arrived.
#[derive(Debug, Clone)]
pub struct SequenceWindow {
    /// One bit per number.
    words: VecDeque<u64>,
    /// The number of the first bit of the first word, divided by 64.
    first: u64,
    /// The highest number plus one.
    next: u64,
    max_words: usize,
}

impl SequenceWindow {
    /// Distinguishes at most `window` numbers, rounded up to a multiple of 64.
    pub fn new(window: usize) -> Self {
        SequenceWindow { words: VecDeque::new(), first: 0, next: 0, max_words: window.div_ceil(64).max(1) }
    }

    /// The highest number plus one.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records an arrival. The window's size bounds memory and time, whatever the number.
    #[inline]
    pub fn record(&mut self, number: u64) -> SequenceOrder {
        let word = number / 64;
        if word < self.first {
            return SequenceOrder::Duplicate;
        }
        self.advance_far(word);
        while self.first + self.words.len() as u64 <= word {
            self.words.push_back(0);
            if self.words.len() > self.max_words {
                self.words.pop_front();
                self.first += 1;
            }
        }
        let (index, bit) = ((word - self.first) as usize, 1 << (number % 64));
        if self.words[index] & bit != 0 {
            return SequenceOrder::Duplicate;
        }
        self.words[index] |= bit;
        while self.words.len() > 1 && self.words[0] == u64::MAX {
            self.words.pop_front();
            self.first += 1;
        }
        if number < self.next {
            return SequenceOrder::Late;
        }
        self.next = number.saturating_add(1);
        SequenceOrder::Newest
    }

    /// Forgets all numbers if `word` is a whole window or more ahead.
    #[inline]
    fn advance_far(&mut self, word: u64) {
        let ahead = word.saturating_sub(self.first + self.words.len() as u64);
        if ahead >= self.max_words as u64 {
            self.words.clear();
            self.first = word + 1 - self.max_words as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_late_arrivals_and_duplicates() {
        let mut window = SequenceWindow::new(usize::MAX);
        let orders = [0, 2, 1, 1, 200, 2, 199, 199].map(|number| window.record(number));
        use SequenceOrder::{Duplicate, Late, Newest};
        assert_eq!(orders, [Newest, Newest, Late, Duplicate, Newest, Duplicate, Late, Duplicate]);
        assert_eq!(window.next(), 201);
    }

    #[test]
    fn a_jump_ahead_takes_no_time_and_no_space() {
        let mut window = SequenceWindow::new(128);
        let far = 1 << 60;
        use SequenceOrder::{Duplicate, Late, Newest};
        assert_eq!(
            [3, far, far - 1, 4, far].map(|n| window.record(n)),
            [Newest, Newest, Late, Duplicate, Duplicate]
        );
        assert!(window.words.len() <= 2 && window.next() == far + 1);
    }

    #[test]
    fn the_window_slides() {
        let mut window = SequenceWindow::new(128);
        for number in (0..100_000).filter(|number| number % 3 != 0) {
            window.record(number);
        }
        assert!(window.words.len() <= 2);
        assert_eq!(
            (window.record(99_999 - 3), window.record(3)),
            (SequenceOrder::Late, SequenceOrder::Duplicate)
        );
        let mut complete = SequenceWindow::new(usize::MAX);
        (0..100_000).for_each(|number| _ = complete.record(number));
        assert_eq!(complete.words.len(), 1, "complete words take no space");
    }
}
