//! What is fuzzed, and replayed from `fuzz/corpus` by a test: any bytes as a scenario file.

use crate::ScenarioFile;

/// Reads `data` as a scenario file and resolves every variant. Nothing may panic; what resolves must print as a file
/// that resolves to the same.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = match ScenarioFile::parse("fuzz.toml", text) {
        Ok(file) => file,
        Err(error) => {
            // Its spans must lie within the text.
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let variants: Vec<Option<&str>> = std::iter::once(None).chain(file.variants().map(Some)).collect();
    for variant in variants {
        match file.resolve(variant, &[]) {
            Ok(scenario) => {
                let printed = scenario.to_toml();
                let again = ScenarioFile::parse("printed.toml", &printed)
                    .and_then(|file| file.resolve(None, &[]))
                    .unwrap_or_else(|e| panic!("what was printed is refused: {e}\n{printed}"));
                assert_eq!(again.flows, scenario.flows);
                assert_eq!(again.links, scenario.links);
                assert_eq!(again.hosts, scenario.hosts);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
