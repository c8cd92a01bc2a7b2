//! A full disk: the agent ends instead of announcing results that it could not store, and continues after a
//! restart with free space.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use agent::{CalendarFile, Client, NewReservation, State};
use reservation::Settings;
use testing::Missing;

use crate::agents::{Agent, Mesh, end, results, wait_for_empty_calendar, wait_until, wanted};

/// Size of the file system, KiB.
const SIZE_KIB: u32 = 4096;
/// Maximum number of tests until the full disk is detected.
const MAX_TESTS: usize = 20;

/// Mounts a small file system over a directory, in a separate mount namespace. It ends with this process.
struct SmallDisk {
    holder: Child,
    _stdin: ChildStdin,
    directory: PathBuf,
}

impl SmallDisk {
    /// Copies the directory into it. `None` without the privilege to mount.
    fn mount(directory: &Path) -> Option<SmallDisk> {
        let script = "set -e; cp -a \"$1\" \"$1.copy\"; mount -t tmpfs -o size=$2k tmpfs \"$1\"; cp -a \"$1.copy/.\" \"$1\"; \
                      echo mounted; exec cat";
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(directory)
            .arg(SIZE_KIB.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let stdin = holder.stdin.take()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take()?).read_line(&mut line).ok()?;
        let disk = SmallDisk { holder, _stdin: stdin, directory: directory.into() };
        (line == "mounted\n").then_some(disk)
    }

    /// The directory as other mount namespaces see it.
    fn path(&self) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.id());
        Path::new(&root).join(self.directory.strip_prefix("/").unwrap())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn a_full_disk_loses_no_result_and_blocks_no_calendar() {
    let mesh = Mesh::of(&["a", "b"]);
    let Some(disk) = SmallDisk::mount(&mesh.directories[1]) else {
        return testing::skip(Missing::Privilege, "no file system can be mounted");
    };
    let _a = Agent::start(&mesh.directories[0]);
    let start = || Agent::start_in_mounts_of(disk.holder.id(), &mesh.directories[1]);
    let (a, b) = (mesh.client(0), Client::new(&disk.path().join("state")));
    let mut agent = start();
    let first = b.reserve(wanted("b", "a", "latency")).unwrap().id;
    assert_eq!(end(&b, &first).phase, "finished", "{:?}", b.why(&first));
    let ballast = disk.path().join("ballast");
    let fill = std::fs::write(&ballast, vec![0; SIZE_KIB as usize * 1024]).unwrap_err();
    assert_eq!(fill.kind(), std::io::ErrorKind::StorageFull);
    // Some tests may fit into space that the files have already reserved.
    let short = || NewReservation { within_us: 10_000_000, ..wanted("b", "a", "latency") };
    for _ in 0..MAX_TESTS {
        if b.reserve(short()).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    wait_until("the end of the agent", || agent.has_ended().then_some(()));
    drop(agent);
    // The other end has no open reservation.
    wait_for_empty_calendar(&a);
    std::fs::remove_file(&ballast).unwrap();
    let agent = start();
    // The earlier results are stored, and every reservation has an outcome.
    wait_for_empty_calendar(&b);
    let rows = wait_until("an end of each test", || {
        let rows = results(&b);
        rows.iter().all(|row| row.state != State::Running).then_some(rows)
    });
    let stored = rows.iter().find(|row| row.id == first);
    assert!(stored.is_some_and(|row| row.state == State::Finished), "{rows:?}");
    let again = b.reserve(wanted("b", "a", "latency")).unwrap().id;
    assert_eq!(end(&b, &again).phase, "finished", "{:?}", b.why(&again));
    // A test that is finished at one end is finished at the other.
    for row in rows.iter().filter(|row| row.state == State::Finished) {
        wait_until("the copy of a result", || results(&a).into_iter().find(|copy| copy.id == row.id));
    }
    wait_for_empty_calendar(&b);
    agent.kill();
    CalendarFile::open(&disk.path().join("state/calendar.sqlite"), "b".into(), Settings::default()).unwrap();
}
