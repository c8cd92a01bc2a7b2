//! "Did you mean": the known word that is nearest to an unknown one.

/// The help for the word `unknown`: the nearest of `known`, or all of them if none is near.
pub(crate) fn suggest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(unknown, &known) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None if known.is_empty() => "none is defined".to_owned(),
        None => format!("expected one of: {}", known.join(", ")),
    }
}

/// As [`suggest`]; if none is near, only the three of `known` that differ least.
pub(crate) fn suggest_few<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    if nearest(unknown, &known).is_some() || known.len() <= 3 {
        return suggest(unknown, known);
    }
    known.sort_by_cached_key(|word| distance(unknown, word));
    format!("the nearest of {} are {}", known.len(), known[..3].join(", "))
}

/// Whether `name` is so similar to `unknown` that it was probably meant.
pub fn is_similar(unknown: &str, name: &str) -> bool {
    nearest(unknown, &[name]).is_some()
}

/// The word of `candidates` that differs least from `unknown`, if at most a third of its characters (and at
/// least one) differ.
pub fn nearest<'a>(unknown: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let (distance, word) = candidates.iter().map(|k| (distance(unknown, k), k)).min_by_key(|(d, _)| *d)?;
    (distance <= (word.chars().count() / 3).max(1)).then_some(*word)
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours. Ignores
/// case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().take(100).collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in
            [("", "", 0), ("delay", "dealy", 1), ("delay", "delayed", 2), ("", "abc", 3), ("A", "a", 0)]
        {
            assert_eq!(distance(a, b), d, "{a} {b}");
            assert_eq!(distance(b, a), d, "{b} {a}");
        }
    }

    #[test]
    fn suggests_the_nearest_word_or_lists_all() {
        assert_eq!(suggest("dealy", ["rate", "delay"]), "did you mean \"delay\"?");
        assert_eq!(suggest("colour", ["rate", "delay"]), "expected one of: rate, delay");
        assert_eq!(suggest("x", []), "none is defined");
        assert_eq!(
            suggest_few("gap", ["rate", "delay", "queue", "mtu"]),
            "the nearest of 4 are rate, mtu, delay"
        );
        assert_eq!(suggest_few("dealy", ["rate", "delay", "queue", "mtu"]), "did you mean \"delay\"?");
    }

    #[test]
    fn few_characters_may_differ() {
        assert!(is_similar("lab9", "lab8") && !is_similar("nosuch", "lab8"));
    }
}
