//! The sweeps that are part of this program, by name (`longfat sweep socket-buffers`): the files of scenarios/sweeps.

use std::path::Path;

/// Name and text of each sweep.
const BUILT_IN_SWEEPS: [(&str, &str); 5] = [
    ("cc-rtt-loss", include_str!("../../../scenarios/sweeps/cc-rtt-loss.toml")),
    ("mtu", include_str!("../../../scenarios/sweeps/mtu.toml")),
    ("socket-buffers", include_str!("../../../scenarios/sweeps/socket-buffers.toml")),
    ("streams", include_str!("../../../scenarios/sweeps/streams.toml")),
    ("udp", include_str!("../../../scenarios/sweeps/udp.toml")),
];

/// The text of the sweep with the name `path`.
pub fn find(path: &Path) -> Option<&'static str> {
    BUILT_IN_SWEEPS.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps");
        for file in std::fs::read_dir(folder).unwrap().flatten() {
            let path = file.path();
            let name = Path::new(path.file_stem().unwrap());
            assert!(
                find(name).is_some_and(|text| text == std::fs::read_to_string(&path).unwrap()),
                "{name:?}"
            );
        }
        assert_eq!(find(Path::new("./udp")), None, "a path, not a name");
    }
}
