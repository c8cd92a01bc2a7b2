//! The known names that are nearest to an unknown one, for error messages.

/// Maximum number of suggested names in a message.
const COUNT: usize = 3;

/// The three of `known` that are nearest to `word`, see [`by_similarity`].
pub fn nearest_names<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    by_similarity(word, known).into_iter().take(COUNT).collect()
}

/// The names of `known`, those nearest to `word` first. Ids and file names often share their beginning, and
/// users type a part of a name: a name that contains the word, or begins as it does, is nearer. Equally near
/// names keep their order in `known`.
pub fn by_similarity<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(100).collect();
    let mut near: Vec<(isize, &str)> = known
        .into_iter()
        .map(|name| {
            let chars: Vec<char> = name.to_lowercase().chars().take(100).collect();
            let common = word.iter().zip(&chars).take_while(|(a, b)| a == b).count();
            let contains = !word.is_empty() && chars.windows(word.len()).any(|part| part == word.as_slice());
            let distance = if contains { chars.len() - word.len() } else { 2 * distance(&word, &chars) };
            // Below zero for long names that begin alike, as ids do: these still differ in their distances.
            (distance as isize - common as isize, name)
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.dedup_by_key(|(_, name)| *name);
    near.into_iter().map(|(_, name)| name).collect()
}

/// Levenshtein distance: insertions, deletions and substitutions.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_nearest_names_come_first() {
        let metrics = ["goodput", "cwnd", "rtt", "srtt_us", "min_rtt_us", "queue"];
        assert_eq!(nearest_names("goodputt", metrics)[0], "goodput");
        assert_eq!(nearest_names("srtt", metrics)[0], "srtt_us");
        assert_eq!(nearest_names("min_rtt", metrics)[0], "min_rtt_us");
        assert_eq!(nearest_names("cwmd", metrics).len(), 3);
        assert_eq!(nearest_names("L8-defualt", ["G-r2", "L8-tuned", "L8-default"])[0], "L8-default");
        assert_eq!(nearest_names("x", []), [""; 0]);
        let ids =
            ["20261125T180705Z-sim-tuned", "20261125T180637Z-sim-fq-codel", "20261125T180636Z-sim-tuned"];
        assert_eq!(nearest_names("20261125T180636Z-sim-tunde", ids)[0], "20261125T180636Z-sim-tuned");
        let scenarios = ["dsl", "lab13", "lab8", "u-buffers"];
        assert_eq!(by_similarity("lab9", scenarios)[..2], ["lab8", "lab13"]);
        assert_eq!(by_similarity("Buffers", scenarios)[0], "u-buffers");
        assert_eq!(by_similarity("", ["ab", "cd"]), ["ab", "cd"]);
    }
}
