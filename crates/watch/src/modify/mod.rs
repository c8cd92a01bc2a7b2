//! Changes settings of live connections of other processes, and restores them: the counterpart of web100's writable
//! variables (LimCwnd, LimRwin, X_Sndbuf, X_Rcvbuf).
//!
//! The owner's socket is duplicated (pidfd_getfd(2)), and its options are set. Only the maximum congestion window needs eBPF.

mod clamp;
mod journal;
mod setting;
mod socket_options;

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, OwnedFd},
};

pub use journal::ModificationJournal;
pub use setting::{Buffer, Setting, SettingKey};

use self::{clamp::ClampProgram, journal::Entry};
use crate::{
    Error, NetNamespace, Process, SocketCookie, SocketOwners, SocketState, TrackedConnection,
    error::Attempted,
};

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The value before.
    pub before: Setting,
    /// The value after, as the kernel reports it.
    pub after: Setting,
}

/// Result for one connection.
#[derive(Debug)]
pub struct ModifiedConnection {
    /// The kernel's socket cookie.
    pub cookie: SocketCookie,
    /// Its addresses, local and peer.
    pub connection: String,
    /// Its owner.
    pub process: Option<Process>,
    /// The changes that were made.
    pub changes: Vec<SettingChange>,
    /// The first error. Later settings of this connection were not changed.
    pub error: Option<Error>,
}

/// Changes and restores settings of connections.
#[derive(Debug)]
pub struct Modifier {
    owners: SocketOwners,
    journal: ModificationJournal,
    clamp: Option<ClampProgram>,
}

impl Modifier {
    /// Searches /proc for the owners of sockets.
    pub fn new(journal: ModificationJournal) -> Modifier {
        let mut owners = SocketOwners::default();
        owners.refresh();
        Modifier { owners, journal, clamp: None }
    }

    /// Applies `settings` to a connection, in their order. The journal receives the original values first.
    pub fn modify(&mut self, connection: &TrackedConnection, settings: &[Setting]) -> ModifiedConnection {
        let sample = &connection.sample;
        let entry = Entry {
            cookie: sample.cookie.0,
            inode: sample.inode,
            connection: sample.addresses.to_string(),
            original: Vec::new(),
        };
        self.apply_all(&entry, settings, true)
    }

    /// Restores the connections of the journal: all, or those in `selected`. Connections that were restored or closed are
    /// removed from the journal.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn restore(
        &mut self,
        selected: Option<&BTreeSet<SocketCookie>>,
    ) -> Result<Vec<ModifiedConnection>, Error> {
        let is_selected =
            |entry: &Entry| selected.is_none_or(|selected| selected.contains(&SocketCookie(entry.cookie)));
        let entries = std::mem::take(&mut self.journal.entries);
        let (entries, others) = entries.into_iter().partition(is_selected);
        self.journal.entries = others;
        let mut restored = Vec::new();
        for entry in entries {
            let result = self.apply_all(&entry, &entry.original, false);
            let is_closed = matches!(&result.error, Some(Error::Closed(_)));
            if !is_closed {
                if result.error.is_some() {
                    self.journal.entries.push(entry);
                }
                restored.push(result);
            }
        }
        self.journal.write()?;
        Ok(restored)
    }

    fn apply_all(&mut self, entry: &Entry, settings: &[Setting], record: bool) -> ModifiedConnection {
        let mut result = ModifiedConnection {
            cookie: SocketCookie(entry.cookie),
            connection: entry.connection.clone(),
            process: self.owners.owner(entry.inode).cloned(),
            changes: Vec::new(),
            error: None,
        };
        let changed = self.socket(entry).and_then(|(socket, namespace)| {
            for setting in settings {
                result.changes.push(self.apply(entry, &socket, &namespace, setting, record)?);
            }
            Ok(())
        });
        result.error = changed.err();
        result
    }

    fn apply(
        &mut self,
        entry: &Entry,
        socket: &OwnedFd,
        namespace: &NetNamespace,
        setting: &Setting,
        record: bool,
    ) -> Result<SettingChange, Error> {
        let name = setting.key().name();
        let before = self.read(entry, socket, namespace, setting.key())?;
        if record {
            self.journal.record(entry, before.clone())?;
        }
        if let Setting::CwndClamp(_) = setting {
            let after = self.clamp()?.visit(namespace, entry, Some(setting))?;
            return Ok(SettingChange { before, after });
        }
        socket_options::set(socket.as_fd(), setting)
            .attempted(|| format!("set {name} of {} to {setting}", entry.connection))?;
        let after = self.read(entry, socket, namespace, setting.key())?;
        Ok(SettingChange { before, after })
    }

    fn read(
        &mut self,
        entry: &Entry,
        socket: &OwnedFd,
        namespace: &NetNamespace,
        key: SettingKey,
    ) -> Result<Setting, Error> {
        let read = socket_options::read(socket.as_fd(), key);
        match read.attempted(|| format!("read {} of {}", key.name(), entry.connection))? {
            Some(setting) => Ok(setting),
            None => self.clamp()?.visit(namespace, entry, None),
        }
    }

    fn clamp(&mut self) -> Result<&ClampProgram, Error> {
        match self.clamp.take() {
            Some(program) => Ok(self.clamp.insert(program)),
            None => Ok(self.clamp.insert(ClampProgram::load()?)),
        }
    }

    /// A duplicate of the owner's socket, and the owner's network namespace.
    fn socket(&self, entry: &Entry) -> Result<(OwnedFd, NetNamespace), Error> {
        let closed = || Error::Closed(entry.connection.clone());
        let (pid, fd) = self.owners.descriptor(entry.inode).ok_or_else(closed)?;
        let socket = match os::duplicate_descriptor(pid, fd) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::ESRCH)) => {
                return Err(closed());
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::Missing(format!(
                    "cannot change {}: no permission to trace process {pid}, its owner (root is needed, or \
                    kernel.yama.ptrace_scope=0 and the same user)",
                    entry.connection
                )));
            }
            other => other.attempted(|| format!("duplicate the socket of process {pid}"))?,
        };
        let mut cookie = 0u64;
        let read = os::read_option(&socket, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie);
        // The descriptor may have been closed and reused since the search.
        if read.is_err() || cookie != entry.cookie {
            return Err(closed());
        }
        Ok((socket, NetNamespace::open(&pid.to_string())?))
    }
}

/// Whether a connection has settings that can be changed: it is open, and it is not a listener.
pub fn is_modifiable(connection: &TrackedConnection) -> bool {
    let state = connection.sample.state;
    connection.closed_ns.is_none()
        && connection.sample.inode != 0
        && state != SocketState::CLOSED
        && state.name() != "listening"
}
