//! `longfat kernel` without builds: list, remove and errors. Builds are tested in the crate `guest`.

use crate::common::{CommandOutput, SMALL, TestDir};

/// Runs `longfat kernel` with a separate, empty cache.
fn kernel(test_dir: &TestDir, args: &[&str]) -> CommandOutput {
    let mut command = test_dir.longfat(&[&["kernel"], args].concat());
    CommandOutput::from(command.env("LONGFAT_KERNELS", test_dir.path("kernels")).output().unwrap())
}

#[test]
fn listing_an_empty_cache_creates_nothing() {
    let test_dir = TestDir::new(SMALL);
    let listed = kernel(&test_dir, &["list"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains("build one with: longfat kernel build 6.1"), "{listed:?}");
    let json = kernel(&test_dir, &["list", "--json"]).json();
    assert_eq!((&json["schema"], json["kernels"].as_array().unwrap().len()), (&"longfat.kernel/1".into(), 0));
    let removed = kernel(&test_dir, &["remove", "--all", "--json"]).json();
    assert_eq!(removed["removed"], serde_json::json!([]));
    assert!(!test_dir.path("kernels").exists());
}

#[test]
fn files_of_killed_builds_are_removed() {
    let test_dir = TestDir::new(SMALL);
    std::fs::create_dir_all(test_dir.path("kernels/.work-1-a/tree")).unwrap();
    let listed = kernel(&test_dir, &["list"]);
    assert!(listed.stderr.contains("removed the files of a build that was killed"), "{listed:?}");
    assert!(!test_dir.path("kernels/.work-1-a").exists());
}

#[test]
fn mistakes_exit_with_2_and_a_reason() {
    let test_dir = TestDir::new(SMALL);
    for (args, reason) in [
        (&["remove", "6.1"][..], "no kernel 6.1"),
        (&["remove"], "required"),
        (&["build", "6.1", "--source", "."], "cannot be used with"),
        (&["build", "--source", "."], "is not a kernel tree: it has no Makefile"),
        (&["build", "--image", "s.toml"], "is not a User-Mode Linux kernel with time travel"),
        (&["build", "--image", "s.toml", "--name", "6.1"], "cannot be the name of a kernel"),
        (&["build", "--jobs", "0"], "--jobs"),
    ] {
        let ran = kernel(&test_dir, args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(reason) && ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
    let ran = kernel(&test_dir, &["build", "--source", "nowhere"]);
    assert!(ran.code == 1 && ran.stderr.contains("nowhere: No such file"), "{ran:?}");
}
