//! The image of a measurement point, the script that prepares the points of compose.yaml, and parts of
//! scripts/dist.sh.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::common::TestDir;

fn file_of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The user of the image is not root, and the umask of whoever builds it may be strict.
#[test]
fn all_users_can_read_the_files_of_the_image() {
    let dir = TestDir::new("");
    fs::write(dir.path("program"), "").unwrap();
    succeed(
        Command::new("sh")
            .args(["-c", "umask 077; exec \"$0\" \"$@\""])
            .arg(file_of_repository("scripts/oci.sh"))
            .arg(dir.path("program"))
            .args(["amd64", "1"])
            .arg(dir.path("image.tar")),
    );
    fs::create_dir(dir.path("image")).unwrap();
    succeed(Command::new("tar").arg("-xf").arg(dir.path("image.tar")).arg("-C").arg(dir.path("image")));
    let document = |path: &str| -> Value {
        serde_json::from_slice(&fs::read(dir.path("image").join(path)).unwrap()).unwrap()
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        format!("blobs/{}", digest.replace(':', "/"))
    };
    let manifest = document(&blob(&document("index.json")["manifests"][0]));
    let layer = dir.path("image").join(blob(&manifest["layers"][0]));
    let listed = succeed(Command::new("tar").arg("-tvzf").arg(layer));
    assert!(listed.contains("usr/bin/longfat"), "{listed}");
    // The state of the point is for its user only.
    for line in listed.lines().filter(|line| !line.contains("var/lib/longfat-agent")) {
        let needed = if line.starts_with('d') || line.ends_with("usr/bin/longfat") { "r-x" } else { "r--" };
        let is_readable = line.get(7..10).is_some_and(|others| others == needed || others == "rwt");
        assert!(is_readable, "{line}");
    }
}

#[test]
fn checksums_are_those_of_all_packages() {
    let dir = TestDir::new("");
    let packages = dir.path("dist");
    fs::create_dir(&packages).unwrap();
    let sum = || Command::new(file_of_repository("scripts/checksums.sh")).arg(&packages).output().unwrap();
    assert!(!sum().status.success(), "there is no package");
    for name in ["longfat-1.tar.gz", "longfat-1-amd64.oci.tar", "longfat_1_amd64.deb"] {
        fs::write(packages.join(name), name).unwrap();
    }
    // The second time it replaces them.
    for _ in 0..2 {
        let output = sum();
        assert!(output.status.success(), "{output:?}");
    }
    let check = ["--check", "--strict", "SHA256SUMS"];
    let checked = succeed(Command::new("sha256sum").args(check).current_dir(&packages).env("LC_ALL", "C"));
    assert_eq!(checked.lines().filter(|line| line.ends_with(": OK")).count(), 3, "{checked}");
}

#[test]
fn a_failed_step_of_the_aarch64_build_is_an_error_and_missing_tools_are_not() {
    let dir = TestDir::new("");
    let tools = dir.path("tools");
    fs::create_dir(&tools).unwrap();
    for name in ["aarch64-linux-gnu-gcc", "rustup", "apt-get", "dpkg-deb"] {
        // Written by another process: this one may fork while it writes, and the file would be busy.
        let script = "printf '#!/bin/sh\n[ \"${0##*/}\" != \"$FAILS\" ]\n' >\"$0\" && chmod +x \"$0\"";
        succeed(Command::new("sh").args(["-c", script]).arg(tools.join(name)));
    }
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let prepare = |fails: &str| {
        let mut command = Command::new(file_of_repository("scripts/aarch64.sh"));
        command.arg(dir.path("aarch64")).env("PATH", &path).env("FAILS", fails);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (fails, code) in [("rustup", 3), ("apt-get", 3), ("dpkg-deb", 1)] {
        assert_eq!(prepare(fails), (Some(code), String::new()), "{fails}");
    }
    let (code, variables) = prepare("nothing");
    assert_eq!(code, Some(0));
    assert!(variables.lines().all(|line| line.contains('=')), "{variables}");
    assert!(variables.contains("LIBBPF_SYS_LIBRARY_PATH="), "{variables}");
}

#[test]
fn points_that_were_prepared_in_part_are_an_error() {
    let dir = TestDir::new("");
    let script = file_of_repository("packaging/compose/setup.sh");
    let setup =
        || -> Output { Command::new("sh").arg(&script).env("POINTS", dir.path("points")).output().unwrap() };
    let write = |point: &str, text: &str| {
        fs::create_dir_all(dir.path("points").join(point)).unwrap();
        fs::write(dir.path("points").join(point).join("agent.toml"), text).unwrap();
    };
    write("a", "name = \"a\"\n");
    let output = setup();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("docker compose down --volumes"), "{output:?}");
    write("c", "name = \"c\"\n");
    assert_eq!(setup().status.code(), Some(1), "c has joined, and has no archive yet");
    write("c", "name = \"c\"\n\n[archive]\n");
    let output = setup();
    assert!(output.status.success(), "{output:?}");
}
