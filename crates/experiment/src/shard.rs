//! A part of a sweep: every n-th run, so that n processes execute all of it.

use std::str::FromStr;

/// The runs of one of several processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The number of the process, from 1.
    pub number: usize,
    /// Number of processes.
    pub count: usize,
}

impl Shard {
    /// Whether the run with this index, from 0, belongs to the shard.
    pub fn contains(self, index: usize) -> bool {
        index % self.count == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    /// `K/N`, as in `3/100`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, count)| {
            Some(Shard { number: number.trim().parse().ok()?, count: count.trim().parse().ok()? })
        });
        let is_valid = |shard: &Shard| (1..=shard.count).contains(&shard.number);
        parsed.filter(is_valid).ok_or_else(|| format!("{text:?} is not K/N with K from 1 to N, as in 3/100"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_belongs_to_one_shard() {
        let shards: Vec<Shard> = (1..=7).map(|k| format!("{k}/7").parse().unwrap()).collect();
        for index in 0..50 {
            assert_eq!(shards.iter().filter(|shard| shard.contains(index)).count(), 1);
        }
        for wrong in ["", "3", "0/4", "5/4", "1/0", "-1/4", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
