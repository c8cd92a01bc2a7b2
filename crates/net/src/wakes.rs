//! Which of many has something to do next: a pipe here, a flow in the simulator.

use units::Time;

/// No place.
const NONE: u32 = u32::MAX;

/// Later than all that pipes have to do.
const NEVER: Time = Time(u64::MAX);

/// When each pipe has something to do: a tournament in which the earliest wins, ties by pipe.
///
/// An instant that changes is played again only up to where it changes nothing, and nothing ever moves. Pipes that
/// never had anything to do (ideal ones) take no part.
#[derive(Debug)]
pub struct Wakes {
    /// The earliest instant of all at 1, those of the halves at 2 and 3, and so on. The second half is the pipes themselves,
    /// in their order, so that ties go to the left.
    winners: Vec<Time>,
    /// The winner of all again: it is looked at before anything is done.
    winner: Time,
    /// The place of each pipe in the second half.
    places: Vec<u32>,
    /// The pipes that take part, in order: who has which place.
    playing: Vec<u32>,
}

impl Wakes {
    /// Nothing to do for any of so many pipes.
    pub fn new(pipes: usize) -> Self {
        Wakes { winners: vec![NEVER; 2], winner: NEVER, places: vec![NONE; pipes], playing: Vec::new() }
    }

    /// From now on `pipe` has something to do at `wake`, and only then.
    #[inline]
    pub fn arm(&mut self, pipe: usize, wake: Option<Time>) {
        let at = wake.unwrap_or(NEVER);
        let place = self.places[pipe];
        if place == NONE {
            if at < NEVER {
                self.join(pipe, at);
            }
        } else if self.winners[place as usize] != at {
            self.play(place as usize, at);
        }
    }

    /// From now on `pipe` has something to do at `wake` at the latest: where it had before, that stays. So a timer that is
    /// put off with each packet costs nothing until it has come.
    #[inline]
    pub fn arm_by(&mut self, pipe: usize, wake: Option<Time>) {
        let place = self.places[pipe];
        if place == NONE || wake.unwrap_or(NEVER) < self.winners[place as usize] {
            self.arm(pipe, wake);
        }
    }

    /// The next instant at which there is something to do, if that is not after `now`, and the pipe that has; it is to be
    /// armed anew when it has done it.
    #[inline]
    pub fn due(&self, now: Time) -> Option<(Time, usize)> {
        if self.winner > now || self.winner == NEVER {
            return None;
        }
        let room = self.winners.len() / 2;
        let mut place = 1;
        while place < room {
            place = 2 * place + usize::from(self.winners[2 * place] != self.winner);
        }
        Some((self.winner, self.playing[place - room] as usize))
    }

    /// The next instant at which there is something to do; without one, later than anything that happens.
    #[inline]
    pub fn next(&self) -> Time {
        self.winner
    }

    /// Plays the matches of one place again, up to the first whose outcome stays the same.
    #[inline(never)]
    fn play(&mut self, place: usize, at: Time) {
        let (mut place, mut winner) = (place, at);
        let winners = self.winners.as_mut_slice();
        while winners[place] != winner {
            winners[place] = winner;
            if place == 1 {
                self.winner = winner;
                return;
            }
            winner = winner.min(winners[place ^ 1]);
            place /= 2;
        }
    }

    /// A pipe has something to do for the first time: all take their places anew.
    #[cold]
    fn join(&mut self, pipe: usize, at: Time) {
        let players = self.winners.split_off(self.winners.len() / 2);
        let mut all: Vec<(u32, Time)> = self.playing.drain(..).zip(players).collect();
        let new = all.partition_point(|player| (player.0 as usize) < pipe);
        all.insert(new, (pipe as u32, at));
        let room = all.len().next_power_of_two();
        self.winners = vec![NEVER; 2 * room];
        for (i, (pipe, at)) in all.into_iter().enumerate() {
            self.playing.push(pipe);
            self.places[pipe as usize] = (room + i) as u32;
            self.winners[room + i] = at;
        }
        for place in (1..room).rev() {
            self.winners[place] = self.winners[2 * place].min(self.winners[2 * place + 1]);
        }
        self.winner = self.winners[1];
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
                prop_assert_eq!(wakes.due(Time(6)), first(&plain));
                prop_assert_eq!(wakes.due(Time(2)), first(&plain).filter(|first| first.0 <= Time(2)));
                prop_assert_eq!(wakes.next(), first(&plain).map_or(Time(u64::MAX), |first| first.0));
                if then == 0 && let Some((_, next)) = first(&plain) {
                    wakes.arm(next, None);
                    plain[next] = None;
                }
            }
            while let Some(next) = first(&plain) {
                prop_assert_eq!(wakes.due(next.0), Some(next));
                wakes.arm(next.1, None);
                plain[next.1] = None;
            }
            prop_assert_eq!(wakes.due(Time(u64::MAX)), None);
        }
    }
}
