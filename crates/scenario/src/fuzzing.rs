//! Fuzz target: any bytes as a scenario file. A test replays `fuzz/corpus`.

use crate::ScenarioFile;

/// Parses `data` as a scenario file and resolves every variant. Nothing may panic, and a resolved scenario
/// must print as a file that resolves to the same scenario.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = match ScenarioFile::parse("fuzz.toml", text) {
        Ok(file) => file,
        Err(error) => {
            // Formatting checks that its spans are within the text.
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
                    .unwrap_or_else(|e| panic!("the printed scenario is rejected: {e}\n{printed}"));
                assert_eq!(again.flows, scenario.flows);
                assert_eq!(again.links, scenario.links);
                assert_eq!(again.hosts, scenario.hosts);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
