//! `longfat lab check` on this machine: the document is complete, and the exit code matches it.

use crate::common;
use common::TestDir;

#[test]
fn the_document_and_the_exit_code_agree() {
    let ran = TestDir::new("").run(&["lab", "check", "--json"]);
    let json = ran.parsed();
    assert_eq!(json["schema"], "longfat.check/1");
    assert_eq!(ran.code == 0, json["can_run"] == true, "{ran:?}");
    assert!(ran.code == 0 || ran.code == 4, "{ran:?}");
    let items = json["items"].as_array().unwrap();
    assert!(items.iter().any(|i| i["name"] == "namespaces"));
    let turnaround = &json["turnaround"];
    if ran.code == 0 && turnaround.is_object() {
        for of in ["echo", "tcp"] {
            let us = |field: &str| turnaround[of][field].as_f64().unwrap();
            assert!(us("min_us") > 0.0 && us("min_us") <= us("median_us"), "{turnaround}");
            assert!(turnaround[of]["samples"].as_u64().unwrap() > 0, "{turnaround}");
        }
        let item = items.iter().find(|i| i["name"] == "turnaround").unwrap();
        let key = format!("turnaround = \"{:.0}us\"", turnaround["tcp"]["median_us"].as_f64().unwrap());
        assert!(item["found"].as_str().unwrap().ends_with(&key), "{item}");
    }
    for item in items {
        let state = item["state"].as_str().unwrap();
        assert!(["ok", "limited", "missing"].contains(&state), "{item}");
        assert_eq!(state == "ok", item["remedy"].is_null(), "items that are not ok have a remedy: {item}");
        assert!(!item["found"].as_str().unwrap().is_empty(), "{item}");
    }
}
