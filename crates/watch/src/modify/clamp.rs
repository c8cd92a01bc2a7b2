//! The maximum congestion window of connections, by the eBPF iterator of bpf/modify.bpf.c.

use std::io;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};

use super::{journal::Entry, setting::Setting};
use crate::{
    Error, NetNamespace,
    bpf::{silence_libbpf, unmet_requirement, walk_connections},
    error::Attempted,
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/modify.bpf.o"));
/// No limit, as the kernel initializes it (net/ipv4/tcp.c); and the largest limit that can be set.
const UNLIMITED: [u32; 2] = [u32::MAX, i32::MAX as u32];
/// Size of `struct clamp`: requested value, current value, error.
const CLAMP_BYTES: usize = 12;

/// The loaded program.
pub(crate) struct ClampProgram {
    iterator: Link,
    clamps: MapHandle,
    _object: Object,
}

impl std::fmt::Debug for ClampProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClampProgram").finish_non_exhaustive()
    }
}

fn refused(operation: &str, error: &libbpf_rs::Error) -> Error {
    let reason = unmet_requirement(operation, error);
    Error::Missing(format!("cwnd_clamp cannot be read or set: {reason}"))
}

impl ClampProgram {
    /// Loads the program.
    pub(crate) fn load() -> Result<ClampProgram, Error> {
        silence_libbpf();
        let object = ObjectBuilder::default()
            .name("longfat_modify")
            .and_then(|builder| builder.open_memory(OBJECT))
            .and_then(libbpf_rs::OpenObject::load);
        let object = object.map_err(|e| refused("load the program", &e))?;
        let attached = object.progs_mut().next().map(|program| program.attach());
        let iterator = attached
            .ok_or_else(|| Error::Missing("the eBPF object has no program".into()))?
            .map_err(|e| refused("attach the program", &e))?;
        let clamps = object.maps().next().map(|map| MapHandle::try_from(&map));
        let clamps = clamps
            .ok_or_else(|| Error::Missing("the eBPF object has no map".into()))?
            .map_err(|e| refused("open a map", &e))?;
        Ok(ClampProgram { iterator, clamps, _object: object })
    }

    /// Sets a connection's maximum congestion window, or only reads it (`None`); returns the resulting
    /// setting.
    pub(crate) fn visit(
        &self,
        namespace: &NetNamespace,
        entry: &Entry,
        wanted: Option<&Setting>,
    ) -> Result<Setting, Error> {
        let wanted = match wanted {
            None => 0,
            Some(Setting::CwndClamp(Some(segments))) => *segments,
            Some(_) => UNLIMITED[1],
        };
        let key = entry.cookie.to_ne_bytes();
        let mut value = [0; CLAMP_BYTES];
        value[..4].copy_from_slice(&wanted.to_ne_bytes());
        self.clamps.update(&key, &value, MapFlags::ANY).map_err(|e| refused("store a connection", &e))?;
        let walked = walk_connections(&self.iterator, namespace);
        let result = self.clamps.lookup(&key, MapFlags::ANY);
        let _ = self.clamps.delete(&key);
        walked?;
        let words: Vec<u32> = result
            .ok()
            .flatten()
            .iter()
            .flat_map(|bytes| bytes.chunks_exact(4))
            .filter_map(|word| word.try_into().ok().map(u32::from_ne_bytes))
            .collect();
        match words[..] {
            [_, current, 0] if current > 0 => {
                Ok(Setting::CwndClamp(Some(current).filter(|segments| !UNLIMITED.contains(segments))))
            }
            [_, _, error] if error != 0 => Err(io::Error::from_raw_os_error((error as i32).wrapping_neg()))
                .attempted(|| format!("set cwnd_clamp of {}", entry.connection)),
            _ => Err(Error::Closed(entry.connection.clone())),
        }
    }
}
