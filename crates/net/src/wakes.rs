//! Which of many has something to do next: a pipe here, a flow in the simulator.

use units::Time;

/// No place.
const NONE: u32 = u32::MAX;

/// An instant and a pipe in one number: ties go by pipe.
type Key = u128;

const PIPE_BITS: u32 = 32;

/// Later than all that pipes have to do.
const NEVER: Key = Key::MAX;

fn key(at: Time, pipe: usize) -> Key {
    Key::from(at.0) << PIPE_BITS | pipe as Key
}

/// When each pipe has something to do: a tournament in which the earliest wins.
///
/// An instant that changes is played again only up to where it changes nothing, and nothing ever moves. Pipes that
/// never had anything to do (ideal ones) take no part.
#[derive(Debug)]
pub struct Wakes {
    /// The winner of all at 1, those of the halves at 2 and 3, and so on. The second half is the pipes themselves.
    winners: Vec<Key>,
    /// The winner of all again: it is looked at before anything is done.
    winner: Key,
    /// The place of each pipe in the second half.
    places: Vec<u32>,
    playing: usize,
}

impl Wakes {
    /// Nothing to do for any of so many pipes.
    pub fn new(pipes: usize) -> Self {
        Wakes { winners: vec![NEVER; 2], winner: NEVER, places: vec![NONE; pipes], playing: 0 }
    }

    /// From now on `pipe` has something to do at `wake`, and only then.
    #[inline]
    pub fn arm(&mut self, pipe: usize, wake: Option<Time>) {
        let key = wake.map_or(NEVER, |at| key(at, pipe));
        match self.places[pipe] {
            NONE if key == NEVER => {}
            NONE => self.join(pipe, key),
            place => self.play(place as usize, key),
        }
    }

    /// From now on `pipe` has something to do at `wake` at the latest: where it had before, that stays. So a timer that is
    /// put off with each packet costs nothing until it has come.
    #[inline]
    pub fn arm_by(&mut self, pipe: usize, wake: Option<Time>) {
        let key = wake.map_or(NEVER, |at| key(at, pipe));
        let place = self.places[pipe];
        if place == NONE || key < self.winners[place as usize] {
            self.arm(pipe, wake);
        }
    }

    /// The next instant at which there is something to do, and the pipe that has; it is to be armed anew when it has
    /// done it.
    #[inline]
    pub fn first(&self) -> Option<(Time, usize)> {
        let key = self.winner;
        (key != NEVER).then_some((Time((key >> PIPE_BITS) as u64), key as u32 as usize))
    }

    /// The instant of [`Self::first`]; without one, later than anything that happens.
    #[inline]
    pub fn next(&self) -> Time {
        Time((self.winner >> PIPE_BITS) as u64)
    }

    /// Plays the matches of one place again, up to the first whose outcome stays the same.
    #[inline]
    fn play(&mut self, place: usize, key: Key) {
        let (mut place, mut winner) = (place, key);
        while self.winners[place] != winner {
            self.winners[place] = winner;
            if place == 1 {
                self.winner = winner;
                return;
            }
            winner = winner.min(self.winners[place ^ 1]);
            place /= 2;
        }
    }

    /// A pipe has something to do for the first time.
    #[cold]
    fn join(&mut self, pipe: usize, key: Key) {
        let room = self.winners.len() / 2;
        if self.playing == room {
            let players = self.winners.split_off(room);
            self.winners = vec![NEVER; 4 * room];
            let moved = self.places.iter_mut().filter(|place| **place != NONE);
            moved.for_each(|place| *place += room as u32);
            players.into_iter().enumerate().for_each(|(i, player)| self.play(2 * room + i, player));
        }
        let place = self.winners.len() / 2 + self.playing;
        self.playing += 1;
        self.places[pipe] = place as u32;
        self.play(place, key);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However instants are moved about, there and back: none is lost, none comes twice, and the order is right.
        #[test]
        fn moved_instants_are_neither_lost_nor_doubled(
            steps in proptest::collection::vec((0usize..5, proptest::option::of(0u64..6), 0u32..4), 0..200),
        ) {
            let mut wakes = Wakes::new(5);
            let mut plain: Vec<Option<Time>> = vec![None; 5];
            let first = |plain: &[Option<Time>]| {
                plain.iter().enumerate().filter_map(|(pipe, at)| at.map(|at| (at, pipe))).min()
            };
            for (pipe, at, then) in steps {
                wakes.arm(pipe, at.map(Time));
                plain[pipe] = at.map(Time);
                prop_assert_eq!(wakes.first(), first(&plain));
                prop_assert_eq!(wakes.next(), first(&plain).map_or(Time(u64::MAX), |first| first.0));
                if then == 0 && let Some((_, next)) = first(&plain) {
                    wakes.arm(next, None);
                    plain[next] = None;
                }
            }
            while let Some(next) = first(&plain) {
                prop_assert_eq!(wakes.first(), Some(next));
                wakes.arm(next.1, None);
                plain[next.1] = None;
            }
            prop_assert_eq!(wakes.first(), None);
        }
    }
}
