//! Compares the page's types (`web/src/api.ts`) with the server's documents: every field and its type.

use crate::page_site;

use page_site::Site;
use serde_json::json;
use testing::page_types::{interfaces, mistake};

#[test]
fn the_pages_types_match_the_servers_documents() {
    let source = include_str!("../../../web/src/api.ts");
    let known = interfaces(source);
    let site = Site::start();
    let key = site.key();
    let series = json!({
        "run": key, "from_s": 0, "to_s": 30, "columns": 100, "measures": ["goodput", "cwnd"], "link_measures": ["queue"],
        "trace": ["sent"], "causes": true, "events": true,
    });
    let head = site.series(&series).head;
    for (kind, document) in [
        ("RunList", site.get("/api/runs")),
        ("RunDetail[]", site.post("/api/open", &json!({ "runs": [key] }))),
        ("Vocabulary", site.get("/api/vocabulary")),
        ("SweepDocument[]", site.get("/api/sweeps")),
        ("PublishedRow[]", site.get("/api/published")),
        ("SeriesHead", head),
    ] {
        assert_ne!(document, json!([]), "{kind}: the list is empty");
        assert_eq!(mistake(&document, kind, &known, kind), None);
    }
    // The check itself reports missing fields, unknown fields and wrong types.
    let wrong = json!([{ "scenario": "s", "result": {}, "runs": [] }]);
    assert!(mistake(&wrong, "PublishedRow[]", &known, "x").unwrap().contains("is not sent"));
    assert!(mistake(&json!({ "t": "1" }), "Mark", &known, "x").is_some());
    for (union, names) in [
        ("Cause", schema::Cause::ALL.map(|cause| cause.name()).to_vec()),
        (
            "PublishedVerdict",
            vec![
                "within",
                "differs",
                "contradicted",
                "no_figure",
                "missed",
                "unreliable",
                "untrusted",
                "not_run",
            ],
        ),
    ] {
        let text = source.split(&format!("export type {union} =")).nth(1).unwrap().split(';').next().unwrap();
        let mut found: Vec<&str> =
            text.split('|').map(|name| name.trim().trim_matches('\'')).filter(|n| !n.is_empty()).collect();
        found.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(found, names, "{union}");
    }
}
