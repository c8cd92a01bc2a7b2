//! Tests the page's server as a browser and as an attacker, and compares its series with the record's rows.

use crate::page_site;
use page_site::{SAMPLES, Site, flows};
use schema::Cause;
use serde_json::json;

#[test]
fn requests_without_the_cookie_are_refused() {
    let site = Site::start();
    for path in ["/", "/app.js", "/app.css", "/api/runs", "/api/vocabulary", "/nothing"] {
        let response = site.request("GET", path, &[], b"");
        assert_eq!(response.status, 403, "{path}");
        assert!(String::from_utf8(response.body).unwrap().contains("longfat view"));
    }
    // The token was used when the site was started.
    assert_eq!(site.request("GET", &format!("/?token={}", site.token), &[], b"").status, 403);
    assert_eq!(site.request("GET", &format!("/api/runs?token={}", site.token), &[], b"").status, 403);
    assert_eq!(site.with_cookie("GET", "/", b"").status, 200);
    assert_eq!(site.with_cookie("GET", "/nothing", b"").status, 404);
    assert_eq!(site.with_cookie("DELETE", "/api/runs", b"").status, 405);
}

#[test]
fn the_page_names_the_theme_of_the_configuration() {
    let site = Site::start();
    let page = String::from_utf8(site.with_cookie("GET", "/", b"").body).unwrap();
    assert!(page.contains("<html data-default-theme=\"dark\" lang=\"en\">"), "{page}");
    let script = String::from_utf8(site.with_cookie("GET", "/app.js", b"").body).unwrap();
    assert!(script.contains("defaultTheme"), "the script reads it");
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let site = Site::start();
    let own = format!("http://{}", site.address);
    let request = |headers: &[(&str, &str)]| {
        let mut all = vec![("Cookie", site.cookie.as_str())];
        all.extend_from_slice(headers);
        site.request("GET", "/api/runs", &all, b"").status
    };
    assert_eq!(request(&[]), 200);
    assert_eq!(request(&[("Host", "evil.example")]), 421);
    assert_eq!(request(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(request(&[("Origin", "null")]), 403);
    assert_eq!(request(&[("Origin", &own)]), 200);
    assert_eq!(request(&[("Sec-Fetch-Site", "cross-site")]), 403);
    // Also with the correct token in the URL.
    let path = format!("/?token={}", site.token);
    assert_eq!(site.request("GET", &path, &[("Host", "evil.example")], b"").status, 421);
}

#[test]
fn every_response_has_the_security_headers() {
    let site = Site::start();
    for response in [
        site.with_cookie("GET", "/", b""),
        site.with_cookie("GET", "/api/runs", b""),
        site.request("GET", "/", &[], b""),
    ] {
        let policy =
            response.head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap();
        for rule in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        // A program with the simulator for browsers compiles WebAssembly.
        assert!(!policy.replace("'wasm-unsafe-eval'", "").contains("unsafe"), "{policy}");
        for header in
            ["x-content-type-options: nosniff", "cache-control: no-store", "referrer-policy: no-referrer"]
        {
            assert!(response.head.contains(header), "{}", response.head);
        }
    }
    let index = String::from_utf8(site.with_cookie("GET", "/", b"").body).unwrap();
    assert!(!index.contains("<style") && !index.contains("style="), "the policy would refuse it");
    assert!(!index.contains("http"), "nothing is loaded from elsewhere");
}

#[test]
fn no_key_names_a_file_outside_the_runs_directory() {
    let site = Site::start();
    let id = site.key();
    // A record within the directory, with a file outside.
    let record = site.runs_dir().join("two/mixed");
    std::fs::create_dir(&record).unwrap();
    let outside = site.runs_dir().join("../outside/two/secret/summary.json");
    std::os::unix::fs::symlink(outside, record.join("summary.json")).unwrap();
    for key in [
        "two/mixed",
        "../outside/two/secret",
        "two/../../outside/two/secret",
        "two/linked",
        "two/..",
        "..",
        "/etc/passwd",
        "two/",
        "/",
        "two",
        "",
        "two/.20261121T031500Z-sim.partial",
        "two/a\u{0}b",
        "two\\x/y",
        "%2e%2e/x",
        "two/../two/20261121T031500Z-sim",
    ] {
        let response = site.with_cookie("POST", "/api/open", json!({ "runs": [key] }).to_string().as_bytes());
        assert_eq!(response.status, 404, "{key}");
    }
    for path in
        ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/app.js/../../Cargo.toml", "/two/x"]
    {
        assert!(matches!(site.with_cookie("GET", path, b"").status, 400 | 404), "{path}");
    }
    assert_eq!(site.post("/api/open", &json!({ "runs": [id] })).as_array().unwrap().len(), 1);
}

#[test]
fn lists_show_no_summary_of_a_file_outside_the_runs_directory() {
    let site = Site::start();
    // Records within the directory, of which one has a file outside, and one a link to another record of the
    // directory.
    let secret = site.dir.path().join("outside/two/secret/summary.json");
    let within = site.runs_dir().join(site.key()).join("summary.json");
    for (name, summary) in [("mixed", &secret), ("shared", &within)] {
        let record = site.runs_dir().join("two").join(name);
        std::fs::create_dir(&record).unwrap();
        std::os::unix::fs::symlink(summary, record.join("summary.json")).unwrap();
    }
    // The record outside has a point of a sweep and a published figure, which no list may show.
    let mut summary: serde_json::Value = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
    summary["runs"][0]["sweep"] = json!({ "links.secret.forward.queue": "7p" });
    let figure = json!({ "id": "secret", "metric": "flows.a.goodput", "unit": "bit/s", "tolerance": 0.1, "verdict": "within" });
    summary["published"] = json!([figure]);
    assert!(serde_json::from_value::<schema::Summary>(summary.clone()).is_ok(), "it is a summary");
    std::fs::write(&secret, summary.to_string()).unwrap();

    let runs = site.get("/api/runs");
    let item = |id: &str| {
        let of_id = |run: &&serde_json::Value| run["id"] == id;
        runs["runs"].as_array().unwrap().iter().find(of_id).cloned().unwrap()
    };
    for id in ["linked", "mixed"] {
        let error = item(id)["error"].as_str().map(str::to_owned).unwrap();
        assert!(error.contains("outside the directory of records"), "{error}");
        assert!(item(id)["engine"].is_null(), "{}", item(id));
    }
    assert!(item("shared")["error"].is_null(), "{}", item("shared"));
    for path in ["/api/sweeps", "/api/published"] {
        let text = site.get(path).to_string();
        assert!(!text.contains("secret") && !text.contains("two/mixed"), "{path}: {text}");
    }
}

#[test]
fn invalid_requests_are_refused_and_the_server_continues() {
    let site = Site::start();
    let request = |from: f64, to: f64, measure: &str| {
        json!({ "run": site.key(), "from_s": from, "to_s": to, "columns": 10, "measures": [measure] })
            .to_string()
            .into_bytes()
    };
    for body in [
        b"".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"\xff\xfe".to_vec(),
        request(5.0, 5.0, "rtt"),
        request(0.0, 1e300, "rtt"),
        request(0.0, 1.0, "no_such_metric"),
        request(0.0, 1.0, "queue"),
    ] {
        assert_eq!(
            site.with_cookie("POST", "/api/series", &body).status,
            400,
            "{}",
            String::from_utf8_lossy(&body)
        );
    }
    assert_eq!(site.with_cookie("POST", "/api/series", &vec![b' '; 100_000]).status, 413);
    let many = json!({ "runs": vec![site.key(); 1000] }).to_string();
    assert_eq!(site.with_cookie("POST", "/api/open", many.as_bytes()).status, 400);
    // A damaged table affects only its run.
    std::fs::write(site.runs_dir().join(site.key()).join("links.parquet"), b"PAR1 no more").unwrap();
    let open = json!({ "runs": [site.key()] }).to_string();
    assert_eq!(site.with_cookie("POST", "/api/open", open.as_bytes()).status, 500);
    assert_eq!(site.get("/api/runs")["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_short_span_is_drawn_from_the_samples_of_the_record() {
    let site = Site::start();
    let found = site.series(&json!({
        "run": site.key(), "from_s": 10.0, "to_s": 11.0, "columns": 500, "measures": ["cwnd", "rtt"], "flows": ["b"], "trace": [],
    }));
    let rows: Vec<_> = flows()
        .into_iter()
        .filter(|row| row.flow == "b" && (9_990_000..=11_010_000).contains(&row.time_us))
        .collect();
    let cwnd: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| (row.time_us as f64 / 1e6, (row.snd_cwnd_segs.unwrap() * 1448) as f64))
        .collect();
    assert_eq!(found.curves[0], cwnd, "with one sample before and one after");
    // A tenth of the samples has no round-trip time, which shows as gaps.
    let present: Vec<f64> = found.curves[1].iter().map(|p| p.1).filter(|v| !v.is_nan()).collect();
    let expected: Vec<f64> = rows.iter().filter_map(|row| row.srtt_us).map(|us| us as f64 / 1e6).collect();
    assert_eq!(present, expected);
    assert!(found.curves[1].iter().any(|p| p.1.is_nan()));
}

#[test]
fn a_whole_run_is_drawn_with_extremes_and_means() {
    let site = Site::start();
    let request = json!({
        "run": site.key(), "from_s": 0.0, "to_s": 30.0, "columns": 20, "measures": ["goodput"], "flows": ["a"], "causes": true, "events": true,
        "link_measures": ["queue"],
    });
    let found = site.series(&request);
    let goodput: Vec<f64> =
        flows().iter().filter(|row| row.flow == "a").map(|row| row.goodput_bps.unwrap() as f64).collect();
    let drawn: Vec<f64> = found.curves[0].iter().map(|p| p.1).collect();
    let max = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
    let min = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
    assert_eq!((min(&drawn), max(&drawn)), (min(&goodput), max(&goodput)));
    assert!(drawn.len() <= 2 * 22, "{}", drawn.len());
    // Two means, which together cover all samples.
    let mean = goodput.iter().sum::<f64>() / goodput.len() as f64;
    let means: Vec<f64> = found.means[0].iter().map(|p| p.1).collect();
    assert_eq!(means.len(), 2);
    assert!((means.iter().sum::<f64>() / 2.0 / mean - 1.0).abs() < 0.05, "{means:?} {mean}");
    // Slow start for a third of the time, then loss.
    let index = |cause| Cause::ALL.iter().position(|other| *other == cause).unwrap();
    let share = |column: usize, cause| found.causes[column * Cause::ALL.len() + index(cause)];
    assert_eq!((share(0, Cause::SlowStart), share(0, Cause::Loss)), (255, 0));
    // The last sample is 10 ms before the column's end: 1.49 of 1.5 s.
    assert_eq!((share(19, Cause::SlowStart), share(19, Cause::Loss)), (0, 253));
    let marks = found.head["marks"].as_array().unwrap();
    let count: u64 = marks.iter().map(|mark| mark["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 50);
    assert_eq!(marks.iter().map(|mark| mark["value"].as_i64().unwrap()).sum::<i64>(), 100);
    assert_eq!(found.head["curves"][1]["subject"], "h1-h2 forward");
}

#[test]
fn a_run_in_progress_grows_on_the_page() {
    let site = Site::start();
    let summary: schema::Summary = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
    let mut writer =
        record::Writer::create(&site.runs_dir(), "live", "20261121T040000Z-lab", "", &summary).unwrap();
    let rows = flows();
    let parts: Vec<_> = rows.chunks(rows.len() / 3).collect();
    let key = "live/20261121T040000Z-lab";
    let open = || site.post("/api/open", &json!({ "runs": [key] }))[0].clone();
    let whole = || {
        let request = json!({ "run": key, "from_s": 0.0, "to_s": 40.0, "columns": 8000, "measures": ["cwnd"], "flows": ["a"], "causes": true });
        site.series(&request).curves.remove(0)
    };
    for (number, part) in parts.iter().enumerate() {
        writer.append(part, &[], &[]).unwrap();
        let detail = open();
        assert_eq!(
            (detail["partial"].as_bool(), detail["rows"].as_u64()),
            (Some(true), Some((part.len() * (number + 1)) as u64))
        );
        assert_eq!(whole().len(), part.len() * (number + 1) / 2);
    }
    writer.finish(&summary, &rows, &[], &[]).unwrap();
    let detail = open();
    assert_eq!(
        (detail["partial"].as_bool(), detail["rows"].as_u64()),
        (Some(false), Some(2 * SAMPLES as u64))
    );
    assert_eq!(whole().len(), SAMPLES as usize);
}
