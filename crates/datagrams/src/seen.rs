//! Which of many numbered packets have come: a bit for each, over a window that moves on.

use std::collections::VecDeque;

/// What a packet's number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is the newest so far.
    Newest,
    /// A later one has come before.
    Late,
    /// It has come before, or is older than the window.
    Again,
}

/// The numbers seen.
#[derive(Debug, Clone)]
pub struct Seen {
    words: VecDeque<u64>,
    /// The number of the first bit of the first word, over 64.
    first: u64,
    /// The newest number and one more.
    next: u64,
    most_words: usize,
}

impl Seen {
    /// Keeps at most so many numbers apart, rounded up to 64.
    pub fn new(window: usize) -> Self {
        Seen { words: VecDeque::new(), first: 0, next: 0, most_words: window.div_ceil(64).max(1) }
    }

    /// One more than the newest number.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A packet has come. The window's size bounds memory and time, whatever the number.
    #[inline]
    pub fn take(&mut self, number: u64) -> Place {
        let word = number / 64;
        if word < self.first {
            return Place::Again;
        }
        self.jump(word);
        while self.first + self.words.len() as u64 <= word {
            self.words.push_back(0);
            if self.words.len() > self.most_words {
                self.words.pop_front();
                self.first += 1;
            }
        }
        let (place, bit) = ((word - self.first) as usize, 1 << (number % 64));
        if self.words[place] & bit != 0 {
            return Place::Again;
        }
        self.words[place] |= bit;
        while self.words.len() > 1 && self.words[0] == u64::MAX {
            self.words.pop_front();
            self.first += 1;
        }
        if number < self.next {
            return Place::Late;
        }
        self.next = number.saturating_add(1);
        Place::Newest
    }

    /// Leaves everything behind where `word` is a window or more beyond it.
    #[inline]
    fn jump(&mut self, word: u64) {
        let beyond = word.saturating_sub(self.first + self.words.len() as u64);
        if beyond >= self.most_words as u64 {
            self.words.clear();
            self.first = word + 1 - self.most_words as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ones_and_duplicates_are_told_apart() {
        let mut seen = Seen::new(usize::MAX);
        let places = [0, 2, 1, 1, 200, 2, 199, 199].map(|number| seen.take(number));
        use Place::{Again, Late, Newest};
        assert_eq!(places, [Newest, Newest, Late, Again, Newest, Again, Late, Again]);
        assert_eq!(seen.next(), 201);
    }

    #[test]
    fn a_jump_takes_no_time_and_no_room() {
        let mut seen = Seen::new(128);
        let far = 1 << 60;
        assert_eq!(
            [3, far, far - 1, 4, far].map(|n| seen.take(n)),
            [Place::Newest, Place::Newest, Place::Late, Place::Again, Place::Again]
        );
        assert!(seen.words.len() <= 2 && seen.next() == far + 1);
    }

    #[test]
    fn the_window_moves_on() {
        let mut seen = Seen::new(128);
        for number in (0..100_000).filter(|number| number % 3 != 0) {
            seen.take(number);
        }
        assert!(seen.words.len() <= 2);
        assert_eq!((seen.take(99_999 - 3), seen.take(3)), (Place::Late, Place::Again));
        let mut all = Seen::new(usize::MAX);
        (0..100_000).for_each(|number| _ = all.take(number));
        assert_eq!(all.words.len(), 1, "what is complete needs no room");
    }
}
