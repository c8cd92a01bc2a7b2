//! Records through the public interface: written, killed, found, damaged, and on a full disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use record::{
    ColumnFile, Error, Run, RunEntry, RunsLocation, TableName, Writer, check_writable, find, find_entry,
    list, new_id, remove, to_prune,
};
use schema::{Event, EventKind, FlowSample, LinkDirection, LinkSample, Summary, TraceKind, TraceRow};

fn summary() -> Summary {
    serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap()
}

fn flow(time_us: i64) -> FlowSample {
    FlowSample { time_us, flow: "bulk".into(), goodput_bps: Some(time_us * 7), ..FlowSample::default() }
}

fn link(time_us: i64) -> LinkSample {
    LinkSample { time_us, link: "s1-s2".into(), direction: LinkDirection::Forward, ..LinkSample::default() }
}

fn event(time_us: i64) -> Event {
    Event { time_us, subject: "bulk".into(), kind: EventKind::Retransmit, value: 3 }
}

fn create(runs: &Path, id: &str) -> Writer {
    Writer::create(runs, "lab8", id, "title = \"Lab 8\"\n", &summary()).unwrap()
}

/// All names below `dir`, sorted.
fn names(dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = match fs::read_dir(dir) {
        Ok(entries) => entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect(),
        Err(_) => Vec::new(),
    };
    found.sort();
    found
}

#[test]
fn a_finished_record_has_its_five_files_and_reads_back() {
    let runs = tempfile::tempdir().unwrap();
    let mut writer = create(runs.path(), "20261121T031500Z-lab-tuned");
    writer.append(&[flow(0), flow(2_000_000)], &[link(5)], &[]).unwrap();
    let flows: Vec<FlowSample> = (0..500).map(|i| flow(i * 10_000)).collect();
    let path = writer.finish(&summary(), &flows, &[link(5), link(6)], &[event(7)]).unwrap();

    assert_eq!(path, runs.path().join("lab8/20261121T031500Z-lab-tuned"));
    assert_eq!(
        names(&path),
        ["events.parquet", "flows.parquet", "links.parquet", "scenario.toml", "summary.json"]
    );
    assert_eq!(names(&runs.path().join("lab8")), ["20261121T031500Z-lab-tuned"]);
    let run = find(runs.path(), "last").unwrap();
    assert_eq!(
        (run.path.as_path(), run.partial, run.id()),
        (path.as_path(), false, "20261121T031500Z-lab-tuned")
    );
    assert_eq!(run.flows().unwrap(), flows);
    assert_eq!(run.links().unwrap(), [link(5), link(6)]);
    assert_eq!(run.events().unwrap(), [event(7)]);
    assert_eq!(run.scenario_toml().unwrap(), "title = \"Lab 8\"\n");
}

fn traced(i: i64) -> TraceRow {
    let kind = TraceKind::ALL[(i % 4) as usize];
    TraceRow {
        time_us: i / 3,
        flow: "bulk".into(),
        kind,
        seq_bytes: (i % 2 == 0).then_some(i),
        ..TraceRow::default()
    }
}

#[test]
fn traces_are_written_in_parts_that_become_one_file() {
    let runs = tempfile::tempdir().unwrap();
    let rows: Vec<TraceRow> = (0..300_000).map(traced).collect();
    let mut writer = create(runs.path(), "traced");
    rows.chunks(1000).for_each(|chunk| writer.append_trace(chunk).unwrap());
    let parts = |dir: &Path| names(dir).iter().filter(|name| name.starts_with("trace.part-")).count();
    assert_eq!(parts(writer.path()), 2, "written rows are released");
    let path = writer.finish(&summary(), &[], &[], &[]).unwrap();
    assert!(names(&path).contains(&"trace.parquet".to_owned()) && parts(&path) == 0, "{:?}", names(&path));
    assert_eq!(Run::open(&path).unwrap().trace().unwrap(), rows);

    let mut writer = create(runs.path(), "killed");
    rows.chunks(1000).for_each(|chunk| writer.append_trace(chunk).unwrap());
    std::mem::forget(writer);
    let kept = find(runs.path(), "killed").unwrap().trace().unwrap();
    assert_eq!(kept, rows[..kept.len()]);
    assert!(kept.len() >= 2 * 128 * 1024, "{}", kept.len());

    let plain = create(runs.path(), "plain").finish(&summary(), &[], &[], &[]).unwrap();
    assert!(Run::open(&plain).unwrap().trace().unwrap().is_empty());
}

#[test]
fn a_dropped_record_with_a_trace_alone_opens_as_partial() {
    let runs = tempfile::tempdir().unwrap();
    let rows: Vec<TraceRow> = (0..9).map(traced).collect();
    let mut writer = create(runs.path(), "dropped");
    writer.append_trace(&rows).unwrap();
    drop(writer);
    let run = find(runs.path(), "dropped").unwrap();
    assert!(run.partial);
    assert_eq!(run.trace().unwrap(), rows);
    assert!(run.flows().unwrap().is_empty());
    // Without any row nothing remains.
    drop(create(runs.path(), "empty"));
    assert!(matches!(find(runs.path(), "empty"), Err(Error::NotFound { .. })));
}

#[test]
fn a_killed_run_opens_as_partial_with_the_rows_of_its_parts() {
    let runs = tempfile::tempdir().unwrap();
    let mut writer = create(runs.path(), "20261121T031500Z-lab");
    for i in 0..250 {
        writer.append(&[flow(i * 10_000)], &[link(i * 10_000)], &[]).unwrap();
    }
    // SIGKILL runs no destructor.
    std::mem::forget(writer);

    let entries = list(runs.path()).unwrap();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].partial);
    let run = find(runs.path(), "20261121T").unwrap();
    assert!(run.partial && run.run().partial);
    let times: Vec<i64> = run.flows().unwrap().iter().map(|f| f.time_us).collect();
    assert_eq!(times, (0..=200).map(|i| i * 10_000).collect::<Vec<i64>>(), "two whole seconds were written");
    assert_eq!(run.run().duration_s, 2.0);
    assert!(run.events().unwrap().is_empty());
    assert!(matches!(find(runs.path(), "last"), Err(Error::NotFound { .. })), "`last` is a complete run");
}

#[test]
fn long_runs_have_few_parts() {
    let runs = tempfile::tempdir().unwrap();
    let mut writer = create(runs.path(), "long");
    for second in 0..7000 {
        writer.append(&[flow(second * 1_000_000)], &[], &[]).unwrap();
    }
    let parts = names(writer.path()).iter().filter(|n| n.contains(".part-")).count();
    assert!((50..120).contains(&parts), "{parts} parts");
    writer.abort();
    assert!(names(runs.path()).is_empty());
}

#[test]
fn a_dropped_writer_keeps_a_record_only_if_it_has_rows() {
    let runs = tempfile::tempdir().unwrap();
    drop(create(runs.path(), "empty"));
    assert!(names(runs.path()).is_empty(), "no rows: no record, no directory");
    let mut writer = create(runs.path(), "some");
    writer.append(&[flow(10)], &[], &[]).unwrap();
    drop(writer);
    assert_eq!(find(runs.path(), "some").unwrap().flows().unwrap(), [flow(10)]);
}

#[test]
fn a_second_record_of_the_same_id_gets_a_suffix_even_while_the_first_is_written() {
    let runs = tempfile::tempdir().unwrap();
    let first = create(runs.path(), "a");
    let second = create(runs.path(), "a");
    assert_eq!((first.id(), second.id()), ("a", "a-2"));
    first.finish(&summary(), &[], &[], &[]).unwrap();
    let third = create(runs.path(), "a");
    assert_eq!(third.id(), "a-3");
    second.finish(&summary(), &[], &[], &[]).unwrap();
    drop(third);
    assert_eq!(names(&runs.path().join("lab8")), ["a", "a-2"]);
    assert_eq!(find(runs.path(), "a-2").unwrap().id(), "a-2", "the summary has the id that was assigned");
}

#[test]
fn threads_that_start_and_abort_runs_do_not_disturb_each_other() {
    let runs = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..30 {
                    let writer = create(runs.path(), "same");
                    if round % 3 == 0 {
                        writer.finish(&summary(), &[flow(1)], &[], &[]).unwrap();
                    } else {
                        writer.abort();
                    }
                }
            });
        }
    });
    let entries = list(runs.path()).unwrap();
    assert_eq!(entries.len(), 40);
    assert!(entries.iter().all(|e| e.run.as_ref().is_ok_and(|run| !run.partial && run.id() == e.id)));
}

fn three_runs(runs: &Path) {
    for (scenario, id) in [
        ("lab8", "20261121T031500Z-lab-a"),
        ("lab8", "20261121T031500Z-lab-b"),
        ("x", "20261122T000000Z-model"),
    ] {
        let writer = Writer::create(runs, scenario, id, "", &summary()).unwrap();
        writer.finish(&summary(), &[], &[], &[]).unwrap();
    }
}

#[test]
fn runs_are_found_by_id_prefix_and_relative_name() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path();
    three_runs(runs);
    let id = |key: &str| find(runs, key).unwrap().id().to_owned();
    assert_eq!(id("last"), "20261122T000000Z-model");
    assert_eq!(id("last~1"), "20261121T031500Z-lab-b");
    assert_eq!(id("lab8/last"), "20261121T031500Z-lab-b");
    assert_eq!(id("20261122"), "20261122T000000Z-model");
    assert_eq!(id("20261121T031500Z-lab-a"), "20261121T031500Z-lab-a");
    assert_eq!(id("lab8/20261121T031500Z-lab-a"), "20261121T031500Z-lab-a");
    assert_eq!(id(&runs.join("x/20261122T000000Z-model").to_string_lossy()), "20261122T000000Z-model");
    let ids: Vec<String> = list(runs).unwrap().into_iter().map(|e| e.id).collect();
    assert_eq!(ids, ["20261121T031500Z-lab-a", "20261121T031500Z-lab-b", "20261122T000000Z-model"]);
}

#[test]
fn a_record_and_its_copy_from_a_store_are_both_found() {
    let dir = tempfile::tempdir().unwrap();
    three_runs(dir.path());
    let record = dir.path().join("x/20261122T000000Z-model");
    let copy = dir.path().join("x/run=20261122T000000Z-model");
    fs::create_dir(&copy).unwrap();
    for name in names(&record) {
        fs::copy(record.join(&name), copy.join(&name)).unwrap();
    }
    let path = |key: &str| find(dir.path(), key).unwrap().path;
    assert_eq!(path("20261122T000000Z-model"), record);
    assert_eq!(path("x/20261122T000000Z-model"), record);
    assert_eq!(path("x/run=20261122T000000Z-model"), copy);
    let message = find(dir.path(), "20261122").unwrap_err().to_string();
    assert!(message.contains(&format!("{}, ", record.display())), "{message}");
    assert!(message.contains(&*copy.to_string_lossy()), "{message}");
    fs::remove_dir_all(&record).unwrap();
    assert_eq!(path("20261122T000000Z-model"), copy);
}

#[test]
fn keys_without_a_unique_match_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    three_runs(dir.path());
    let message = |key: &str| find(dir.path(), key).unwrap_err().to_string();
    assert_eq!(
        message("20261121"),
        "\"20261121\" matches several runs: lab8/20261121T031500Z-lab-a, lab8/20261121T031500Z-lab-b"
    );
    assert!(
        message("nosuch").contains("the nearest of 3 are ")
            && message("nosuch").ends_with("`longfat ls` lists them")
    );
    assert!(
        message("lastt").contains("last is the newest of 3, last~1 the one before"),
        "{}",
        message("lastt")
    );
    assert!(message("runs/lab8").contains("lab8 is a scenario with 2 runs: lab8/last is the newest"));
    assert!(message("last~3").ends_with("there are 3 complete runs"));
    assert!(message("").contains("no run \"\""));
    let nowhere = dir.path().join("nowhere");
    assert!(list(&nowhere).unwrap().is_empty());
    assert!(find(&nowhere, "last").unwrap_err().to_string().ends_with("there are 0 complete runs"));
}

#[test]
fn damaged_records_are_listed_with_their_error_and_the_others_stay_usable() {
    let dir = tempfile::tempdir().unwrap();
    three_runs(dir.path());
    let broken = dir.path().join("lab8/20261121T031500Z-lab-a");
    fs::write(broken.join("summary.json"), "{\"schema\": ").unwrap();
    fs::create_dir(dir.path().join("lab8/empty")).unwrap();
    let entries = list(dir.path()).unwrap();
    let errors: Vec<String> =
        entries.iter().filter_map(|e| e.run.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(entries.len(), 4);
    assert!(errors.iter().any(|e| e.contains("lab-a/summary.json: EOF while parsing")), "{errors:?}");
    assert!(
        errors.iter().any(|e| e.contains("cannot read") && e.contains("empty/summary.json")),
        "{errors:?}"
    );
    assert_eq!(find(dir.path(), "last").unwrap().id(), "20261122T000000Z-model");

    let run = find(dir.path(), "last").unwrap();
    let file = run.path.join("flows.parquet");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let message = run.flows().unwrap_err().to_string();
    assert!(message.contains("flows.parquet: not a readable Parquet file"), "{message}");
    fs::remove_file(&file).unwrap();
    assert!(run.flows().unwrap_err().to_string().contains("No such file"));
}

#[test]
fn a_summary_of_another_schema_or_with_several_runs_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    three_runs(dir.path());
    let path = dir.path().join("x/20261122T000000Z-model");
    let text = fs::read_to_string(path.join("summary.json")).unwrap();
    fs::write(path.join("summary.json"), text.replace("summary/1", "summary/2")).unwrap();
    assert!(Run::open(&path).unwrap_err().to_string().contains("its schema is \"longfat.summary/2\""));
    let mut two = summary();
    two.runs.push(two.runs[0].clone());
    fs::write(path.join("summary.json"), serde_json::to_string(&two).unwrap()).unwrap();
    assert!(Run::open(&path).unwrap_err().to_string().contains("the summary has 2 runs; a record has one"));
}

#[test]
fn names_and_members_of_other_versions_are_kept() {
    let mut json: serde_json::Value = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
    json["runs"][0]["engine"] = "an engine of a later version".into();
    json["runs"][0]["quality"]["ok"] = false.into();
    json["runs"][0]["quality"]["disturbed"] = true.into();
    let summary: Summary = serde_json::from_value(json.clone()).unwrap();
    assert!(summary.runs[0].quality.is_disturbed());
    let written = serde_json::to_value(&summary).unwrap();
    let members =
        |value: &serde_json::Value| (value["engine"].clone(), value["quality"]["disturbed"].clone());
    assert_eq!(members(&written["runs"][0]), members(&json["runs"][0]));
    json["runs"][0]["quality"].as_object_mut().unwrap().remove("ok");
    assert!(serde_json::from_value::<Summary>(json).unwrap_err().to_string().contains("missing field `ok`"));
}

#[test]
fn names_from_a_scenario_stay_inside_the_runs_directory() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let id = new_id("20261121T031500Z", "lab", Some("../../b c"), 1);
    let writer = Writer::create(&runs, "../evil", &id, "", &summary()).unwrap();
    let path = writer.finish(&summary(), &[], &[], &[]).unwrap();
    assert!(
        path.starts_with(&runs) && path.components().all(|c| c.as_os_str() != ".."),
        "{}",
        path.display()
    );
}

#[test]
fn a_runs_directory_that_cannot_be_created_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let message = Writer::create(&file.join("runs"), "lab8", "a", "", &summary()).unwrap_err().to_string();
    assert!(message.starts_with("cannot create") && message.contains("file"), "{message}");
}

/// A tmpfs of 64 KiB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at).status();
        status.is_ok_and(|s| s.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Rows that do not compress.
fn noise(count: i64) -> Vec<FlowSample> {
    let mut state = 1u64;
    (0..count)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            FlowSample { goodput_bps: Some(state as i64), ..flow(i * 10_000) }
        })
        .collect()
}

#[test]
fn a_full_disk_is_reported_and_no_files_remain() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        testing::skip(testing::Missing::Privilege, "mounting a tmpfs needs root");
        return;
    };
    let runs = disk.0.join("runs");
    let writer = create(&runs, "at-the-end");
    let message = writer.finish(&summary(), &noise(20_000), &[], &[]).unwrap_err().to_string();
    assert!(message.starts_with("cannot write ") && message.contains("flows.parquet"), "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    assert!(names(&disk.0).is_empty());

    let mut writer = create(&runs, "in-the-middle");
    let failed = noise(20_000).chunks(200).find_map(|rows| writer.append(rows, &[], &[]).err());
    assert!(failed.unwrap().to_string().contains("No space left on device"));
    assert!(names(&disk.0).is_empty(), "no files remain, even before the writer is dropped");
    assert!(matches!(writer.append(&[flow(1)], &[], &[]), Err(Error::Removed { .. })));
    drop(writer);

    let long = "#".repeat(100_000);
    let message = Writer::create(&runs, "lab8", "at-once", &long, &summary()).unwrap_err().to_string();
    assert!(message.contains("scenario.toml") && message.contains("No space left"), "{message}");
    assert!(names(&disk.0).is_empty());
}

#[test]
fn columns_are_read_without_rows() {
    let runs = tempfile::tempdir().unwrap();
    let writer = create(runs.path(), "20261121T031500Z-lab-tuned");
    let mut flows: Vec<FlowSample> = (0..500).map(|i| flow(i * 10_000)).collect();
    for row in flows.iter_mut().step_by(3) {
        row.flow = "other".into();
        row.goodput_bps = None;
    }
    let path = writer.finish(&summary(), &flows, &[link(5)], &[event(7)]).unwrap();
    let run = Run::open(&path).unwrap();
    let files = run.files(TableName::Flows).unwrap();
    assert_eq!(files, [path.join("flows.parquet")]);
    let file = ColumnFile::open(&files[0]).unwrap();
    assert_eq!(file.groups(), 1);
    let goodput = file.ints(0, "goodput_bps").unwrap().unwrap();
    assert_eq!(goodput, flows.iter().map(|row| row.goodput_bps).collect::<Vec<_>>());
    let names = file.texts(0, "flow").unwrap().unwrap();
    assert_eq!(names.names, ["other", "bulk"]);
    let name = |number: &Option<u32>| names.names[number.unwrap() as usize].clone();
    assert_eq!(
        names.rows.iter().map(name).collect::<Vec<_>>(),
        flows.iter().map(|row| row.flow.clone()).collect::<Vec<_>>()
    );
    let numbers = file.numbers(0, "goodput_bps").unwrap().unwrap();
    let as_number = |cell: &Option<i64>| cell.map(|value| value as f64);
    let expected: Vec<Option<f64>> = goodput.iter().map(as_number).collect();
    assert_eq!(numbers.iter().map(|n| (!n.is_nan()).then_some(*n)).collect::<Vec<_>>(), expected);
    assert_eq!(file.numbers(0, "time_us").unwrap().unwrap()[499], 4_990_000.0);
    assert_eq!((file.span_us(0), file.rows(0)), (Some((0, 4_990_000)), 500));
    assert_eq!(file.ints(0, "no_such_column").unwrap(), None);
    assert_eq!(file.numbers(0, "no_such_column").unwrap(), None);
    assert!(file.ints(0, "flow").unwrap_err().to_string().contains("does not contain integers"));
    // All rows have the same text: read from the statistics.
    let links = ColumnFile::open(&run.files(TableName::Links).unwrap()[0]).unwrap();
    let direction = links.texts(0, "direction").unwrap().unwrap();
    assert_eq!((direction.names, direction.rows), (vec!["forward".to_owned()], vec![Some(0)]));
    assert_eq!(run.files(TableName::Trace).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_record_is_removed_unless_it_is_being_written_and_interrupted_removals_are_completed() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path();
    create(runs, "a").finish(&summary(), &[flow(0)], &[], &[]).unwrap();
    let mut writer = create(runs, "b");
    writer.append(&[flow(0), flow(2_000_000)], &[], &[]).unwrap();
    // The directory that remains if a removal is killed after the renaming.
    fs::create_dir(runs.join("lab8/.c.removed")).unwrap();
    let entry = |id: &str| find_entry(runs, id).unwrap();

    let message = remove(&entry("b")).unwrap_err().to_string();
    assert_eq!(message, "lab8/b is being written; end that run first");
    assert_eq!(list(runs).unwrap().len(), 2);
    remove(&entry("a")).unwrap();
    assert_eq!(names(&runs.join("lab8")), [".b.partial"]);
    // Its process was killed: the record remains partial and is no longer locked.
    drop(writer);
    remove(&entry("b")).unwrap();
    assert_eq!(names(runs), [""; 0], "the scenario's empty directory is removed too");
}

#[test]
fn only_records_are_removed_even_damaged_ones() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path();
    create(runs, "good").finish(&summary(), &[flow(0)], &[], &[]).unwrap();
    for (path, file) in [
        ("lab8/without-summary", Some("scenario.toml")),
        ("lab8/.killed.partial", None),
        ("documents/zz-thesis", Some("thesis.tex")),
        ("documents/coverage", Some("summary.json")),
        ("documents/empty", None),
    ] {
        fs::create_dir_all(runs.join(path)).unwrap();
        if let Some(file) = file {
            fs::write(runs.join(path).join(file), "{}").unwrap();
        }
    }
    create(runs, "damaged").finish(&summary(), &[flow(0)], &[], &[]).unwrap();
    fs::write(runs.join("lab8/damaged/summary.json"), "{").unwrap();
    let ids = |entries: &[RunEntry]| {
        let mut ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
        ids.sort();
        ids
    };
    let records = ["damaged", "good", "killed", "without-summary"];
    assert_eq!(ids(&to_prune(list(runs).unwrap(), 0, None)), records);
    // Other directories do not count among those to keep either.
    assert_eq!(to_prune(list(runs).unwrap(), 3, None).len(), 1);
    for entry in list(runs).unwrap() {
        match records.contains(&entry.id.as_str()) {
            true => RunsLocation::from(runs).remove(&entry).unwrap(),
            false => {
                let message = remove(&entry).unwrap_err().to_string();
                assert!(message.contains("is not a record"), "{message}");
                assert!(RunsLocation::from(runs).remove(&entry).is_err());
            }
        }
    }
    assert_eq!(ids(&list(runs).unwrap()), ["coverage", "empty", "zz-thesis"]);
    assert!(runs.join("documents/zz-thesis/thesis.tex").exists());
}

#[test]
fn check_writable_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    check_writable(&dir.path().join("not/there/yet")).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
    fs::write(dir.path().join("file"), "").unwrap();
    let error = check_writable(&dir.path().join("file")).unwrap_err();
    assert!(!error.is_read_only(), "{error}: must not be treated as a read-only directory");
}
