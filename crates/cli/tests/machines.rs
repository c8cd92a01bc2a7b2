//! The program on another kernel: User-Mode Linux with this machine's root file system, read-only.
//! `LONGFAT_UML` names the kernel's file (docs/machines.md describes how to build one); without it
//! `../shared/uml/linux-6.12.uml.xz` beside the checkout is used. Its one processor is slow, so the test
//! checks only exit codes, bytes and messages, not rates.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use testing::Missing;

use crate::common;
use common::binary;

/// Timeout of the guest, seconds. An idle machine needs about 15 s.
const LIMIT: &str = "300";

const SCENARIO: &str = r#"title = "10 Mb/s"
duration = "60s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "10mbit", delay = "5ms", queue = "64kB" }
backward = { rate = "10mbit", delay = "5ms", queue = "64kB" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
size = "200kB"
"#;

/// The guest's first process. `try NAME COMMAND` leaves NAME.out, NAME.err and NAME.code.
const INIT: &str = r#"#!/bin/bash
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp NO_COLOR=1 L=BINARY
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/net; for d in /tmp /run /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $d; done
mkdir -p /tmp/shared && mount -t hostfs -o SHARED none /tmp/shared; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
cd /tmp; touch shared/booted
try() { local name=$1; shift; timeout 60 "$@" > $name.out 2> $name.err; echo $? > $name.code; cp $name.* shared/; }
up() { "$L" lab up shared/s.toml --name m && "$L" lab exec --lab m h1 -- true && "$L" lab down m; }
export -f up
try check "$L" lab check --json
try run "$L" run shared/s.toml --json
sed 's/^address = .*/&\ntx_queue = 20/' shared/s.toml > short.toml
try short "$L" run short.toml --json
sed 's/^address = .*/&\ntx_queue = 1000000/' shared/s.toml > long.toml
try long "$L" run long.toml --json
try up bash -c up
echo 0 > /proc/sys/user/max_pid_namespaces
try no-up bash -c up
rm /dev/net/tun
try packet-check "$L" lab check --json
try packet "$L" run shared/s.toml --json
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys
try read-only "$L" run shared/s.toml --json
try clean "$L" lab clean
touch shared/done; sync
python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
"#;

/// The kernel's file, if there is one.
pub fn kernel() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LONGFAT_UML") {
        return Some(named.into());
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packed = checkout.join("../shared/uml/linux-6.12.uml.xz");
    let unpacked = checkout.join("target/linux-6.12.uml");
    if packed.exists() && !unpacked.exists() {
        let script = format!(
            "xz -dc {packed:?} > {unpacked:?}.new && chmod +x {unpacked:?}.new && mv {unpacked:?}.new {unpacked:?}"
        );
        Command::new("sh").args(["-c", &script]).status().ok()?;
    }
    unpacked.exists().then_some(unpacked)
}

/// The output files of one command in the guest.
struct Guest<'a>(&'a Path);

impl Guest<'_> {
    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }

    fn code(&self, name: &str) -> i32 {
        self.text(&format!("{name}.code")).trim().parse().unwrap_or(-1)
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{name}.out"))).unwrap_or_default()
    }

    fn error(&self, name: &str) -> String {
        self.text(&format!("{name}.err"))
    }

    /// Asserts that a run succeeded and that its flow transferred all its data. A run of over a minute
    /// (code 124) is ignored.
    fn assert_ran(&self, name: &str, slow: &mut bool) {
        if self.code(name) == 124 {
            *slow = true;
            return;
        }
        assert_eq!(self.code(name), 0, "{name}: {}", self.error(name));
        let bytes = self.json(name)["runs"][0]["flows"][0]["bytes"].as_u64();
        assert_eq!(bytes, Some(200_000), "{name}");
    }
}

#[test]
fn another_kernel_runs_the_engines_that_its_check_reports() {
    let Some(kernel) = kernel() else {
        testing::skip(Missing::Feature, "no User-Mode Linux kernel (LONGFAT_UML)");
        return;
    };
    let test_dir = tempfile::tempdir().unwrap();
    let shared = test_dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("s.toml"), SCENARIO).unwrap();
    let init = test_dir.path().join("init");
    fs::write(&init, INIT.replace("BINARY", binary()).replace("SHARED", shared.to_str().unwrap())).unwrap();
    let mut boot = Command::new("timeout");
    boot.args(["--kill-after=5", LIMIT]).arg(kernel).args(["mem=1G", "root=/dev/root", "rootfstype=hostfs"]);
    boot.args(["rootflags=/", "ro", "con=null", "con0=null,fd:1", "quiet"]);
    boot.arg(format!("init={}", init.display()))
        .arg(format!("uml_dir={}", test_dir.path().join("uml").display()));
    fs::set_permissions(&init, PermissionsExt::from_mode(0o755)).unwrap();
    if Path::new("/dev/shm").is_dir() {
        // UML's memory is a file that is mapped executable.
        boot.env("TMPDIR", "/dev/shm");
    }
    let console = boot.stdin(Stdio::null()).output().unwrap();
    let guest = Guest(&shared);
    if !shared.join("booted").exists() {
        let printed = String::from_utf8_lossy(&console.stdout).into_owned();
        testing::skip(Missing::Feature, format!("User-Mode Linux does not boot here: {printed}"));
        return;
    }
    let mut slow = !shared.join("done").exists();
    if slow {
        testing::skip(Missing::QuietMachine, format!("the guest did not end within {LIMIT} s"));
        return;
    }
    let check = guest.json("check");
    assert!(guest.code("check") == 0 && check["can_run"] == true, "{check}");
    guest.assert_ran("run", &mut slow);
    guest.assert_ran("short", &mut slow);
    // Kernels without the limit set the length; kernels with it report an error, and no other length is set.
    if guest.code("long") != 0 {
        let error = guest.error("long");
        assert_eq!(guest.code("long"), 4, "{error}");
        assert!(error.contains("h1-eth0: this kernel rejects nic.tx_queue = 1000000 packets"), "{error}");
    }
    let item = |check: &Value, name: &str| {
        let items = check["items"].as_array().cloned().unwrap_or_default();
        items.iter().find(|i| i["name"] == name).map(|i| i["state"].as_str().unwrap_or_default().to_string())
    };
    if item(&check, "mount and pid namespaces").as_deref() == Some("ok") {
        assert!([0, 124].contains(&guest.code("up")), "{}", guest.error("up"));
    }
    assert_eq!(guest.code("no-up"), 4, "{}", guest.error("no-up"));
    assert!(guest.error("no-up").contains("cannot create a PID namespace"), "{}", guest.error("no-up"));
    let check = guest.json("packet-check");
    assert_eq!(item(&check, "tap ports").as_deref(), Some("limited"), "{check}");
    assert_eq!(item(&check, "packet ports").as_deref(), Some("ok"), "{check}");
    assert_eq!(item(&check, "mount and pid namespaces").as_deref(), Some("missing"), "{check}");
    guest.assert_ran("packet", &mut slow);
    guest.assert_ran("read-only", &mut slow);
    assert_eq!(guest.code("clean"), 0, "{}", guest.error("clean"));
    if slow {
        testing::skip(Missing::QuietMachine, "a run of 200 kB took over a minute");
    }
}
