//! The source files of the kernel's own congestion controls, and their module parameters on this machine.

use std::{fs, path::Path};

use tcp::LINUX_CONGESTION_CONTROLS;

/// A parameter of a kernel module and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleParameter {
    /// Its name in `/sys/module/tcp_NAME/parameters`.
    pub name: String,
    /// Its value; `None` if this user may not read it.
    pub value: Option<String>,
}

/// The file of the kernel's source with the algorithm `name`; `None` if Linux has none of this name.
pub fn kernel_source_file(name: &str) -> Option<String> {
    match name {
        "reno" => Some("net/ipv4/tcp_cong.c".into()),
        _ => LINUX_CONGESTION_CONTROLS.contains(&name).then(|| format!("net/ipv4/tcp_{name}.c")),
    }
}

/// The parameters of the kernel's module `tcp_NAME`, by name; none if it is not loaded or has none.
pub fn module_parameters(name: &str) -> Vec<ModuleParameter> {
    match kernel_source_file(name) {
        Some(_) => parameters_in(&Path::new("/sys/module").join(format!("tcp_{name}")).join("parameters")),
        None => Vec::new(),
    }
}

fn parameters_in(folder: &Path) -> Vec<ModuleParameter> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<ModuleParameter> = entries
        .flatten()
        .map(|entry| ModuleParameter {
            name: entry.file_name().to_string_lossy().into_owned(),
            value: fs::read_to_string(entry.path()).ok().map(|text| text.trim().to_owned()),
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_of_linux_have_a_source_file_and_other_names_have_none() {
        assert_eq!(kernel_source_file("cubic").as_deref(), Some("net/ipv4/tcp_cubic.c"));
        assert_eq!(kernel_source_file("reno").as_deref(), Some("net/ipv4/tcp_cong.c"));
        assert_eq!((kernel_source_file("griddt"), kernel_source_file("../x")), (None, None));
    }

    #[test]
    fn parameters_are_sorted_and_trimmed() {
        let folder = std::env::temp_dir().join(format!("longfat-parameters-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("hystart"), "1\n").unwrap();
        fs::write(folder.join("beta"), "717\n").unwrap();
        let found = parameters_in(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let found: Vec<_> = found.iter().map(|p| (p.name.as_str(), p.value.as_deref())).collect();
        assert_eq!(found, [("beta", Some("717")), ("hystart", Some("1"))]);
        assert_eq!(parameters_in(&folder), []);
    }
}
