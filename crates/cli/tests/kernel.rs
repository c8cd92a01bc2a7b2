//! `longfat kernel` without a build: what it lists, removes and refuses. The crate `guest` tests builds.

use crate::common::{Place, Ran, SMALL};

/// The command, with an empty cache of its own.
fn kernel(place: &Place, args: &[&str]) -> Ran {
    let mut command = place.longfat(&[&["kernel"], args].concat());
    Ran::of(command.env("LONGFAT_KERNELS", place.path("kernels")).output().unwrap())
}

#[test]
fn an_empty_cache_is_listed_and_left_alone() {
    let place = Place::new(SMALL);
    let listed = kernel(&place, &["list"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains("build one with: longfat kernel build 6.1"), "{listed:?}");
    let json = kernel(&place, &["list", "--json"]).json();
    assert_eq!((&json["schema"], json["kernels"].as_array().unwrap().len()), (&"longfat.kernel/1".into(), 0));
    let removed = kernel(&place, &["remove", "--all", "--json"]).json();
    assert_eq!(removed["removed"], serde_json::json!([]));
    assert!(!place.path("kernels").exists());
}

#[test]
fn what_a_killed_build_left_is_removed() {
    let place = Place::new(SMALL);
    std::fs::create_dir_all(place.path("kernels/.work-1-a/tree")).unwrap();
    let listed = kernel(&place, &["list"]);
    assert!(listed.stderr.contains("removed the files of a build that was killed"), "{listed:?}");
    assert!(!place.path("kernels/.work-1-a").exists());
}

#[test]
fn mistakes_end_with_code_2_and_a_reason() {
    let place = Place::new(SMALL);
    for (args, reason) in [
        (&["remove", "6.1"][..], "no kernel 6.1"),
        (&["remove"], "required"),
        (&["build", "6.1", "--source", "."], "cannot be used with"),
        (&["build", "--source", "."], "is not a kernel tree: it has no Makefile"),
        (&["build", "--image", "s.toml"], "is not a User-Mode Linux kernel with time travel"),
        (&["build", "--image", "s.toml", "--name", "6.1"], "cannot be the name of a kernel"),
        (&["build", "--jobs", "0"], "--jobs"),
    ] {
        let ran = kernel(&place, args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(reason) && ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
    let ran = kernel(&place, &["build", "--source", "nowhere"]);
    assert!(ran.code == 1 && ran.stderr.contains("nowhere: No such file"), "{ran:?}");
}
