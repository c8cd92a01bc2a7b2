//! Settings of this host that are changed for a run, and restored afterwards, also if this process is killed:
//! a second process waits for the end of this one and then restores them.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            net::{SocketAddr, UnixListener},
            process::CommandExt,
        },
    },
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use scenario::{Host, Nic};
use traffic::Attempted;
use tune::{HostPaths, RequestedSettings, Reverted, SettingChange};

use crate::{Error, error::chain};

/// The argument with which this program is started as the second process.
pub const GUARD_COMMAND: &str = "guard-settings";

/// Name of the abstract socket that a run holds while it changes settings of this network namespace. It
/// vanishes with the last process that holds it.
const CHANGES_LOCK: &str = "longfat-run-settings";
/// Maximum time for which a run waits for the second process that restores the settings of an earlier run.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The device in the names of settings until it is known which of a host's devices carries the data.
const DATA_DEVICE: &str = "nic";

/// The settings of a host that a scenario states: sysctls, and those of its network interface card. If the
/// scenario states a simulated kernel, the card is one of that kernel's time, so its settings do not apply to
/// a real host.
pub(crate) fn stated(host: &Host) -> Vec<(String, String)> {
    let sysctls = host.sysctl.iter().map(|(name, value)| (name.clone(), value.clone()));
    let device = |name: &str, value: String| (format!("{DATA_DEVICE} {name}"), value);
    let nic = if host.kernel.is_none() { host.nic.clone() } else { Nic::default() };
    let queue = nic.tx_queue.map(|packets| device("txqueuelen", packets.to_string()));
    let disabled = |name: &'static str, is_off: bool| is_off.then(|| device(name, "off".into()));
    let no_super_packets = nic.has_no_super_packets(host.mtu);
    let offloads = [
        disabled("tso", no_super_packets),
        disabled("gso", no_super_packets),
        disabled("gro", nic.gro == Some(1)),
    ];
    sysctls.chain(queue).chain(offloads.into_iter().flatten()).collect()
}

/// Names of settings with the name of the device, if it is known.
pub(crate) fn of_device(names: Vec<String>, device: Option<&str>) -> Vec<String> {
    names.into_iter().map(|name| with_device(name, device)).collect()
}

/// A setting's name with the name of the device, if it is known.
pub(crate) fn with_device(name: String, device: Option<&str>) -> String {
    match (name.split_once(' '), device) {
        (Some((DATA_DEVICE, setting)), Some(device)) => format!("{device} {setting}"),
        _ => name,
    }
}

/// Changed settings. They are restored when it is dropped.
#[derive(Debug)]
pub struct ChangedSettings {
    paths: HostPaths,
    /// `None` once they are restored.
    guard: Option<Child>,
    /// The lock, which the second process holds too.
    _lock: UnixListener,
}

/// This host's values of these settings, for a peer and the record. Settings that it does not have, or that
/// only root may read, are missing.
pub(crate) fn read(names: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let paths = HostPaths::for_run()?;
    let disclosed = names.iter().filter(|name| !tune::is_secret_setting(&paths, name));
    Ok(disclosed.filter_map(|name| Some((name.clone(), tune::read_setting(&paths, name).ok()?))).collect())
}

/// Refuses settings that only root may read: a client that changes one could learn its value from an error,
/// or from the report of its restoration.
pub(crate) fn refuse_secrets(settings: &[(String, String)]) -> Result<(), Error> {
    let paths = HostPaths::for_run()?;
    match settings.iter().find(|(name, _)| tune::is_secret_setting(&paths, name)) {
        Some((name, _)) => {
            Err(Error::NotPermitted(format!("{name} is a secret of this host, which no client may change")))
        }
        None => Ok(()),
    }
}

impl ChangedSettings {
    /// Changes settings (names and values as of [`tune::apply`]). Settings that a killed run has left changed
    /// are restored first.
    ///
    /// # Errors
    /// If a setting cannot be changed, or another run has changed settings of this host; none is changed
    /// then.
    pub fn change(purpose: &str, settings: &[(String, String)]) -> Result<ChangedSettings, Error> {
        let paths = HostPaths::for_run()?;
        let lock = lock_changes()?;
        let guard_lock = lock.try_clone().attempted(|| "share the lock of changed settings".into())?;
        tune::revert(&paths, |_| {})?;
        let guard = Command::new("/proc/self/exe")
            .arg(GUARD_COMMAND)
            .stdin(Stdio::piped())
            // The second process holds the lock until it ends.
            .stdout(Stdio::from(OwnedFd::from(guard_lock)))
            .stderr(Stdio::null())
            // Signals of the terminal do not reach the second process.
            .process_group(0)
            .spawn()
            .attempted(|| "start the process that restores settings".into())?;
        let changed = ChangedSettings { paths, guard: Some(guard), _lock: lock };
        let requested = RequestedSettings {
            purpose: purpose.into(),
            settings: settings.to_vec(),
            ..RequestedSettings::default()
        };
        let applied = tune::apply(&changed.paths, &requested, |_| {})?;
        match applied.rejected.first() {
            None => Ok(changed),
            Some(rejected) => Err(Error::NotPermitted(format!(
                "cannot set {} to {}: {}",
                rejected.name, rejected.value, rejected.why
            ))),
        }
    }

    /// Restores the settings. The result names those that another program has changed meanwhile.
    ///
    /// # Errors
    /// If a setting cannot be restored; the journal then remains.
    pub fn restore(mut self) -> Result<Reverted, Error> {
        self.restore_now()
    }

    fn restore_now(&mut self) -> Result<Reverted, Error> {
        let Some(mut guard) = self.guard.take() else { return Ok(Reverted::default()) };
        let reverted = tune::revert(&self.paths, |_| {});
        // The second process finds nothing to restore, or retries what failed.
        drop(guard.stdin.take());
        let _ = guard.wait();
        Ok(reverted?.unwrap_or_default())
    }
}

/// Restores settings that a run has left changed because both of its processes were killed. `None` if there
/// are none, or if a run that is in progress will restore them.
///
/// # Errors
/// If a setting cannot be restored; the journal then remains.
pub fn restore_left_settings() -> Result<Option<Reverted>, Error> {
    let paths = HostPaths::for_run()?;
    if !paths.journal_path().exists() {
        return Ok(None);
    }
    let Some(_lock) = try_lock_changes()? else { return Ok(None) };
    Ok(tune::revert(&paths, |_| {})?)
}

/// As [`restore_left_settings`]; returns a message for the user if a setting was restored, or could not be.
pub fn restore_left_settings_with_note() -> Option<String> {
    let reverted = match restore_left_settings() {
        Ok(reverted) => reverted?,
        Err(error) => {
            return Some(format!(
                "cannot restore settings that a killed run has left changed: {}",
                chain(&error)
            ));
        }
    };
    let restored = |change: &SettingChange| format!("{} = {}", change.name, change.before);
    let settings: Vec<String> = reverted.settings.iter().map(restored).collect();
    (!settings.is_empty())
        .then(|| format!("restored settings that a killed run had left changed: {}", settings.join(", ")))
}

/// Locks the settings of this host: two runs that change them at the same time would each measure with the
/// settings of the other, and restore them too early.
fn lock_changes() -> Result<UnixListener, Error> {
    let begun = Instant::now();
    loop {
        match try_lock_changes()? {
            Some(lock) => return Ok(lock),
            None if begun.elapsed() < RESTORE_TIMEOUT => std::thread::sleep(RETRY_INTERVAL),
            None => {
                return Err(Error::NotPermitted(
                    "another run has changed settings of this host; try again when it has ended".into(),
                ));
            }
        }
    }
}

/// The lock, or `None` if another process holds it.
fn try_lock_changes() -> Result<Option<UnixListener>, Error> {
    let bind = || UnixListener::bind_addr(&SocketAddr::from_abstract_name(CHANGES_LOCK)?);
    match bind() {
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
        bound => Ok(Some(bound.attempted(|| "lock the settings of this host".into())?)),
    }
}

impl Drop for ChangedSettings {
    fn drop(&mut self) {
        if let Err(error) = self.restore_now() {
            tracing::error!(%error, "cannot restore settings");
        }
    }
}

/// The second process: waits for the end of its standard input, which is the end of the first process, and
/// restores the settings.
///
/// # Errors
/// If a setting cannot be restored.
pub fn guard_settings() -> Result<(), Error> {
    // A termination signal is meant for the first process: this process ends after it.
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, std::sync::Arc::default())
            .attempted(|| "ignore a signal".into())?;
    }
    let mut byte = [0];
    let mut input = std::io::stdin();
    while !matches!(input.read(&mut byte), Ok(0)) {}
    tune::revert(&HostPaths::for_run()?, |_| {})?;
    Ok(())
}
