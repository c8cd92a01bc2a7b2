//! Changes settings of live connections of other processes, and restores them: the counterpart of web100's
//! writable variables (LimCwnd, LimRwin, X_Sndbuf, X_Rcvbuf).
//!
//! The owner's socket is duplicated (pidfd_getfd(2)), and its options are set. Only the maximum congestion
//! window needs eBPF.

mod clamp;
mod journal;
mod setting;
mod socket_options;

use std::{
    collections::{BTreeSet, HashSet},
    io,
    os::fd::{AsFd, OwnedFd},
};

pub use journal::ModificationJournal;
pub use setting::{Buffer, Setting, SettingKey};

use self::{clamp::ClampProgram, journal::Entry};
use crate::{
    Diag, Error, NetNamespace, Process, SocketCookie, SocketOwners, SocketState, TrackedConnection,
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

    /// Restores the connections of the journal: all, or those in `selected`. Connections that were restored
    /// or closed are removed from the journal. Open connections whose owner is not visible remain.
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
        let results: Vec<(Entry, ModifiedConnection)> = entries
            .into_iter()
            .map(|entry| {
                let result = self.apply_all(&entry, &entry.original, false);
                (entry, result)
            })
            .collect();
        let has_no_owner = |result: &ModifiedConnection| matches!(&result.error, Some(Error::Closed(_)));
        let open = match results.iter().any(|(_, result)| has_no_owner(result)) {
            true => open_connections(),
            false => None,
        };
        let is_closed = |cookie: SocketCookie| open.as_ref().is_some_and(|open| !open.contains(&cookie));
        let mut restored = Vec::new();
        for (entry, result) in results {
            if has_no_owner(&result) && is_closed(result.cookie) {
                continue;
            }
            if result.error.is_some() {
                self.journal.entries.push(entry);
            }
            restored.push(result);
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

/// Cookies of the open connections of all network namespaces that this user may enter; `None` if they cannot
/// be listed. Connections that no process has open have no inode, and count as closed.
fn open_connections() -> Option<HashSet<SocketCookie>> {
    let mut samples = Vec::new();
    for namespace in NetNamespace::all_visible() {
        // Connections in namespaces that this user may not enter were not changed by this user.
        if let Ok(mut diag) = namespace.run(Diag::open) {
            diag.dump(&mut samples).ok()?;
        }
    }
    Some(samples.iter().filter(|sample| sample.inode != 0).map(|sample| sample.cookie).collect())
}

/// Whether a connection has settings that can be changed: it is open, and it is not a listener.
pub fn is_modifiable(connection: &TrackedConnection) -> bool {
    let state = connection.sample.state;
    connection.closed_ns.is_none()
        && connection.sample.inode != 0
        && state != SocketState::CLOSED
        && state.name() != "listening"
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::{Filter, TracingMode, Watcher};

    /// As if another user, or a process in another PID namespace, owned the socket.
    fn without_owners(journal: ModificationJournal) -> Modifier {
        Modifier { owners: SocketOwners::default(), journal, clamp: None }
    }

    #[test]
    fn an_open_connection_without_a_visible_owner_stays_in_the_journal() {
        let directory = tempfile::tempdir().unwrap();
        let journal = || ModificationJournal::open(directory.path()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let filter = format!(
            "local port {} and peer port {}",
            sender.local_addr().unwrap().port(),
            sender.peer_addr().unwrap().port()
        );
        let current = vec![NetNamespace::current().unwrap()];
        let mut watcher = Watcher::new(current, Filter::parse(&filter).unwrap(), TracingMode::Never).unwrap();
        watcher.sample().unwrap();
        let changed = Modifier::new(journal()).modify(
            watcher.connections().next().expect("the connection"),
            &["pacing=80mbit".parse().unwrap()],
        );
        assert!(changed.error.is_none(), "{changed:?}");

        let restored = without_owners(journal()).restore(None).unwrap();
        assert!(
            matches!(restored[..], [ModifiedConnection { error: Some(Error::Closed(_)), .. }]),
            "{restored:?}"
        );
        assert_eq!(journal().entries.len(), 1);
        let restored = Modifier::new(journal()).restore(None).unwrap();
        assert!(matches!(restored[..], [ModifiedConnection { error: None, .. }]), "{restored:?}");

        let entry = Entry {
            cookie: changed.cookie.0,
            inode: u32::MAX,
            connection: changed.connection,
            original: vec!["pacing=80mbit".parse().unwrap()],
        };
        journal().record(&entry, entry.original[0].clone()).unwrap();
        drop((sender, receiver));
        assert!(without_owners(journal()).restore(None).unwrap().is_empty(), "it was closed");
        assert!(journal().entries.is_empty());
    }
}
