//! Records in an object store: written, listed, shown, compared, plotted and removed there; written by
//! programs that are killed or cannot reach it; and errors.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testing::{
    Missing,
    s3::{BUCKET, S3Server},
    skip,
};

use crate::common::{CommandOutput, SMALL, TestDir, eventually, with_default_signals};

/// Longer than all retries of a request together.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A server, and a directory of a user.
struct Place {
    server: S3Server,
    test_dir: TestDir,
    url: String,
}

impl Place {
    /// `None` if the server is not installed; the test is reported as skipped then.
    fn new() -> Option<Place> {
        let Some(server) = S3Server::start() else {
            skip(Missing::Tool, "moto_server is not in target/python/venv; scripts/setup.sh tests makes it");
            return None;
        };
        Some(Place { server, test_dir: TestDir::new(SMALL), url: format!("s3://{BUCKET}/some/place") })
    }

    /// The program as a user whose cache is the directory `cache`.
    fn command(&self, cache: &str, args: &[&str]) -> Command {
        let mut command = self.test_dir.longfat(args);
        command.envs(self.server.environment());
        command.env("LONGFAT_RUNS", &self.url).env("XDG_CACHE_HOME", self.test_dir.path(cache));
        command
    }

    fn run_as(&self, cache: &str, args: &[&str]) -> CommandOutput {
        self.command(cache, args).output().unwrap().into()
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_as("cache", args)
    }

    /// The list of runs for a user with an empty cache.
    fn list_elsewhere(&self, cache: &str) -> Vec<Value> {
        self.run_as(cache, &["ls", "--all", "--json"]).json().as_array().unwrap().clone()
    }
}

#[test]
fn records_are_written_read_and_removed() {
    let Some(place) = Place::new() else { return };
    let ran = place.run(&["run", "s.toml", "--engine", "model,sim", "--json"]).json();
    let sim = ran["runs"].as_array().unwrap().iter().find(|run| run["engine"] == "sim").unwrap();
    let id = sim["id"].as_str().unwrap();
    let record = format!("{}/s/run={id}", place.url);
    assert_eq!(sim["record"], record.as_str());
    let text = place.run(&["run", "s.toml", "--engine", "sim", "--set", "seed=2"]).stdout;
    assert!(text.contains(&format!("record: {}/s/run=", place.url)), "{text}");

    for (cache, why) in [("cache", "the writer's cache"), ("other", "an empty cache")] {
        let list = place.run_as(cache, &["ls", "--json"]).json();
        let list = list.as_array().unwrap();
        assert_eq!(list.len(), 3, "{why}");
        assert!(list.iter().all(|run| run["partial"] == false), "{why}");
        assert!(list.iter().any(|run| run["path"] == record.as_str() && run["id"] == id), "{why}: {list:?}");
        let shown = place.run_as(cache, &["show", &record, "--json"]).json();
        assert_eq!(shown["runs"][0]["flows"], sim["flows"], "{why}");
        assert_eq!(shown["runs"][0]["record"], record.as_str());
        let compared = place.run_as(cache, &["compare", id, "last", "--json"]).json();
        assert_eq!(compared["schema"], "longfat.compare/1");
        let svg = place.run_as(cache, &["plot", &format!("s/{id}"), "--metric", "cwnd"]).stdout;
        assert!(svg.contains("<svg") && svg.contains("polyline") || svg.contains("<path"), "{why}: {svg}");
        let csv = place.run_as(cache, &["export", "csv", id, "--table", "links"]).stdout;
        assert!(csv.lines().count() > 10, "{why}: {csv}");
    }

    // The same rows as in a directory of records, to the byte.
    let local = place.test_dir.run(&["--runs", "local", "run", "s.toml", "--engine", "sim", "--json"]).json();
    let local = place.test_dir.path(local["runs"][0]["record"].as_str().unwrap());
    let cached = cached_directory(&place, "other", id);
    let bytes = |directory: &std::path::Path| std::fs::read(directory.join("links.parquet")).unwrap();
    assert_eq!(bytes(&local), bytes(&cached));

    let removed = place.run(&["rm", id]);
    assert!(removed.stdout.contains("removed s/"), "{removed:?}");
    assert_eq!(place.list_elsewhere("third").len(), 2);
    assert_eq!(place.run_as("other", &["ls", "--json"]).json().as_array().unwrap().len(), 2);
    assert!(!cached.exists(), "the list has removed it from the other cache");
    place.run(&["prune", "--keep", "0"]);
    assert!(place.list_elsewhere("fourth").is_empty());
}

/// The directories of the store in a user's cache.
fn store_directory(place: &Place, cache: &str) -> PathBuf {
    let stores = place.test_dir.path(cache).join("longfat/stores");
    std::fs::read_dir(stores).unwrap().next().unwrap().unwrap().path()
}

/// The directory of a record in a user's cache.
fn cached_directory(place: &Place, cache: &str, id: &str) -> PathBuf {
    store_directory(place, cache).join("runs/s").join(format!("run={id}"))
}

#[test]
fn many_runs_are_listed_by_an_index() {
    let Some(place) = Place::new() else { return };
    let queues: Vec<String> = (0..24).map(|n| format!("{}p", 20 + n)).collect();
    let over = format!("links.h1-s1.forward.queue={}", queues.join(","));
    let swept = place.run(&["sweep", "s.toml", "--engine", "model", "--over", &over, "--json"]).json();
    let record = swept["points"][0]["records"][0].as_str().unwrap();
    assert!(record.starts_with(&place.url), "{record}");
    let list = place.list_elsewhere("other");
    assert_eq!(list.len(), 24);
    let key = |run: &Value| (run["id"].as_str().unwrap().to_owned(), run.clone());
    let by_id = |list: &[Value]| list.iter().map(key).collect::<std::collections::BTreeMap<_, _>>();
    let own = place.list_elsewhere("cache");
    assert_eq!(by_id(&list), by_id(&own), "as its writer has them");
    let indexes = store_directory(&place, "other").join("runs/.index");
    assert_eq!(std::fs::read_dir(indexes).unwrap().count(), 1);
    // Removed runs are in the index, but not in the list.
    place.run(&["prune", "--keep", "4"]);
    assert_eq!(place.list_elsewhere("third").len(), 4);
}

#[test]
fn a_killed_writer_leaves_a_partial_record() {
    let Some(place) = Place::new() else { return };
    // Writes its trace while it computes, for minutes.
    let args = ["run", "s.toml", "--engine", "sim", "--set", "duration=100000s", "--trace", "bulk"];
    let mut writer = with_default_signals(&place.command("cache", &args));
    let mut writer = writer.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_rows = |cache: &str, key: &str| {
        let trace = place.run_as(cache, &["export", "csv", key, "--table", "trace"]);
        trace.code == 0 && trace.stdout.lines().count() > 100_000
    };
    // Ids begin with the year.
    let begun = eventually(|| has_rows("reader", "s/2"));
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(begun, "rows can be read while the writer runs");
    let list = place.list_elsewhere("reader");
    assert_eq!(list[0]["partial"], true);
    let id = list[0]["id"].as_str().unwrap();
    let shown = place.run_as("reader", &["show", id]).stdout;
    assert!(shown.contains(id), "{shown}");
    // The next writer uploads the record that the killed one left; the record remains partial.
    place.run(&["run", "s.toml", "--engine", "model"]);
    let list = place.list_elsewhere("fresh");
    let states: Vec<bool> = list.iter().map(|run| run["partial"].as_bool().unwrap()).collect();
    assert_eq!(states, [true, false]);
    assert!(has_rows("fresh", id));
    assert_eq!(
        std::fs::read_dir(store_directory(&place, "cache").join("outbox")).unwrap().count(),
        0,
        "nothing is left to upload"
    );
}

#[test]
fn shards_of_a_sweep_share_the_store() {
    let Some(place) = Place::new() else { return };
    let sweep = |cache: &str, last: &[&str]| {
        let over = [
            "sweep",
            "s.toml",
            "--engine",
            "sim",
            "--over",
            "links.h1-s1.forward.queue=20p,50p,100p",
            "--json",
        ];
        place.run_as(cache, &[over.as_slice(), last].concat())
    };
    for (machine, shard) in [("one", "1/2"), ("two", "2/2")] {
        let ran = sweep(machine, &["--shard", shard]).json();
        assert_eq!(ran["store"], format!("{}/.points", place.url));
    }
    let again = sweep("three", &["--shard", "1/1"]).json();
    assert_eq!((&again["executed"], &again["runs"]), (&0.into(), &3.into()), "all points are there");
    let gathered = sweep("four", &["--gather"]).json();
    assert_eq!(gathered["points"].as_array().unwrap().len(), 3);
    assert!(place.list_elsewhere("five").is_empty(), "points are not records");
}

#[test]
fn records_that_cannot_be_uploaded_are_kept_and_uploaded_later() {
    let Some(place) = Place::new() else { return };
    // A run of some seconds, during which the server vanishes.
    let args = ["run", "s.toml", "--engine", "sim", "--set", "duration=600s"];
    let mut writer = with_default_signals(&place.command("cache", &args));
    let mut writer = writer.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let outbox = place.test_dir.path("cache").join("longfat/stores");
    let has_begun = || outbox.exists() && writer_has_begun(&outbox);
    assert!(eventually(has_begun));
    drop(place.server);
    let begin = Instant::now();
    let status = writer.wait().unwrap();
    assert!(begin.elapsed() < TIMEOUT);
    let mut stderr = String::new();
    writer.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("Connection refused") && stderr.contains("records remain in"), "{stderr}");
}

/// Whether an outbox has a record.
fn writer_has_begun(stores: &std::path::Path) -> bool {
    let Some(store) = std::fs::read_dir(stores).unwrap().flatten().next() else { return false };
    let outboxes = std::fs::read_dir(store.path().join("outbox")).into_iter().flatten().flatten();
    outboxes.into_iter().any(|outbox| outbox.path().join("s").exists())
}

/// The page's server for a user with a cache; it ends when this is dropped.
struct PageServer {
    child: Child,
    address: String,
    cookie: String,
}

impl PageServer {
    fn start(place: &Place, cache: &str) -> PageServer {
        let mut command = place.command(cache, &["--json", "view", "--no-open", "--share-token"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut document = String::new();
        while serde_json::from_str::<Value>(&document).is_err() {
            assert!(reader.read_line(&mut document).unwrap() > 0, "{document}");
        }
        let started: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(started["runs_dir"], place.url.as_str());
        let address = started["address"].as_str().unwrap().to_owned();
        let mut server = PageServer { child, address, cookie: String::new() };
        let (_, path) = started["url"].as_str().unwrap()["http://".len()..].split_once('/').unwrap();
        let (head, _) = server.request("GET", &format!("/{path}"), "");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        server.cookie = cookie.split(';').next().unwrap().to_owned();
        server
    }

    /// The header and the body of a response.
    fn request(&self, method: &str, path: &str, body: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.cookie,
            body.len()
        )
        .unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        (String::from_utf8(response[..end].to_vec()).unwrap(), response[end + 4..].to_vec())
    }

    fn json(&self, method: &str, path: &str, body: &str) -> Value {
        let (head, body) = self.request(method, path, body);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_lists_and_opens_runs_in_the_store() {
    let Some(place) = Place::new() else { return };
    let ran = place.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let (id, record) = (ran["runs"][0]["id"].as_str().unwrap(), &ran["runs"][0]["record"]);
    let key = format!("s/{id}");
    for (cache, is_listed_first) in [("other", true), ("third", false)] {
        let page = PageServer::start(&place, cache);
        if is_listed_first {
            let list = page.json("GET", "/api/runs", "");
            assert_eq!(list["runs_dir"], place.url.as_str());
            assert_eq!(list["runs"].as_array().unwrap().len(), 1);
            assert_eq!((&list["runs"][0]["path"], &list["runs"][0]["partial"]), (record, &false.into()));
        }
        let details = page.json("POST", "/api/open", &json!({ "runs": [key] }).to_string());
        assert_eq!(details[0]["summary"]["flows"], ran["runs"][0]["flows"], "{cache}");
        assert_eq!(details[0]["summary"]["record"], *record);
        assert!(details[0]["rows"].as_u64().unwrap() > 5 && details[0]["topology"].is_object());
        let flow = &ran["runs"][0]["flows"][0]["name"];
        let request = json!({
            "run": key, "flows": [flow], "measures": ["cwnd"], "link_measures": ["queue"], "from_s": 0, "to_s": 1000,
            "columns": 100, "causes": true, "events": true,
        });
        let (head, body) = page.request("POST", "/api/series", &request.to_string());
        assert!(head.starts_with("HTTP/1.1 200"), "{head} {}", String::from_utf8_lossy(&body));
        let length = u32::from_le_bytes(body[..4].try_into().unwrap()) as usize;
        let series: Value = serde_json::from_slice(&body[4..4 + length]).unwrap();
        let curves = series["curves"].as_array().unwrap();
        assert!(curves.iter().any(|curve| curve["subject"] == *flow && curve["points"].as_u64() > Some(2)));
        let (head, _) = page.request("POST", "/api/open", r#"{"runs": ["s/none"]}"#);
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    }
    // A run that is written while the page is open.
    let page = PageServer::start(&place, "other");
    assert_eq!(page.json("GET", "/api/runs", "")["runs"].as_array().unwrap().len(), 1);
    place.run(&["run", "s.toml", "--engine", "model"]);
    assert!(eventually(|| page.json("GET", "/api/runs", "")["runs"].as_array().unwrap().len() == 2));
}

#[test]
fn commands_that_need_no_record_work_without_the_store() {
    let test_dir = TestDir::new(SMALL);
    // No server listens there.
    let run = |args: &[&str]| -> CommandOutput {
        let mut command = test_dir.longfat(args);
        command.env("LONGFAT_RUNS", "s3://runs/place").env("AWS_ENDPOINT_URL", "https://127.0.0.1:9");
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.env("XDG_CACHE_HOME", test_dir.path("cache"));
        command.output().unwrap().into()
    };
    for args in [["bdp", "1gbit", "50ms"].as_slice(), &["scenario", "validate", "s.toml"], &["config"]] {
        let output = run(args);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
    }
    for args in [["ls"].as_slice(), &["run", "s.toml", "--engine", "model"]] {
        let output = run(args);
        assert!(output.code != 0 && output.stderr.contains("cannot connect"), "{args:?}: {output:?}");
    }
}

#[test]
fn errors_name_the_cause() {
    let Some(place) = Place::new() else { return };
    let fails = |variables: &[(&str, &str)], url: &str, args: &[&str]| {
        let mut command = place.command("cache", args);
        command.env("LONGFAT_RUNS", url).envs(variables.iter().copied());
        let begin = Instant::now();
        let output: CommandOutput = command.output().unwrap().into();
        assert!(begin.elapsed() < TIMEOUT, "{variables:?} {url} {args:?}");
        assert_ne!(output.code, 0, "{output:?}");
        output.stderr
    };
    let run = ["run", "s.toml", "--engine", "sim"].as_slice();
    for args in [["ls"].as_slice(), run] {
        let stderr = fails(&[("AWS_SECRET_ACCESS_KEY", "wrong")], &place.url, args);
        assert!(stderr.contains("denied access (SignatureDoesNotMatch)"), "{stderr}");
        let stderr = fails(&[("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")], &place.url, args);
        assert!(stderr.contains("denied access (InvalidAccessKeyId)"), "{stderr}");
        let stderr = fails(&[], "s3://absent/x", args);
        assert!(stderr.contains("there is no bucket absent"), "{stderr}");
        // A free port, on which no server listens.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stderr = fails(&[("AWS_ENDPOINT_URL", &format!("http://{free}"))], &place.url, args);
        assert!(stderr.contains("cannot connect to") && stderr.contains("Connection refused"), "{stderr}");
    }
    let stderr = fails(&[("AWS_ALLOW_HTTP", "")], &place.url, &["ls"]);
    assert!(stderr.contains("AWS_ALLOW_HTTP=true"), "{stderr}");
    let stderr = fails(&[("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")], &place.url, &["ls"]);
    assert!(stderr.contains("set AWS_ACCESS_KEY_ID"), "{stderr}");
    let stderr = fails(&[], "s3://", &["ls"]);
    assert!(stderr.contains("has no bucket"), "{stderr}");
    // A server that accepts connections and never replies.
    place.server.suspend();
    let stderr = fails(&[], &place.url, &["ls"]);
    assert!(stderr.contains("no reply within 20 s"), "{stderr}");
}
