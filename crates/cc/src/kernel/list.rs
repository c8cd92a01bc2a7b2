//! Lists the kernel's congestion controls and those registered by BPF.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType,
    btf::{
        Btf, HasSize,
        types::{MemberAttr, Struct},
    },
    query::{LinkInfoIter, LinkTypeInfo, MapInfoIter},
};

use super::{Error, error::Attempted};

const SETTINGS: &str = "/proc/sys/net/ipv4";

/// The congestion controls of this network namespace, as any user can read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelControls {
    /// All congestion controls that sockets can select now, without modules that are not loaded. The kernel
    /// truncates the list at 2 KiB, which is some 128 names.
    pub available: Vec<String>,
    /// Congestion controls that sockets of unprivileged users may select, also truncated at 2 KiB.
    pub allowed: Vec<String>,
    /// The default of a socket.
    pub default: String,
}

/// A congestion control registered by BPF, by any program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedControl {
    /// Name of the congestion control.
    pub name: String,
    /// Whether sockets of every user may select it.
    pub unrestricted: bool,
    /// The BPF map that holds it.
    pub map_id: u32,
    /// The BPF link of the registration; `None` for a permanent registration without a link (older programs).
    pub link_id: Option<u32>,
    /// Processes that hold the link: id and name.
    pub held_by: Vec<(u32, String)>,
}

/// Reads the kernel's lists of congestion controls.
///
/// # Errors
/// If a sysctl cannot be read.
pub fn kernel_controls() -> Result<KernelControls, Error> {
    let read = |name: &str| {
        let path = Path::new(SETTINGS).join(name);
        fs::read_to_string(&path).attempted(|| format!("read {}", path.display()))
    };
    let words = |text: String| text.split_whitespace().map(str::to_string).collect();
    Ok(KernelControls {
        available: words(read("tcp_available_congestion_control")?),
        allowed: words(read("tcp_allowed_congestion_control")?),
        default: read("tcp_congestion_control")?.trim().into(),
    })
}

/// The congestion controls registered by BPF, by name. Needs the privilege to load them.
///
/// # Errors
/// Without type information or privilege.
pub fn loaded_controls() -> Result<Vec<LoadedControl>, Error> {
    if let Some(missing) = super::missing_requirement() {
        return Err(Error::Missing(missing));
    }
    let Some(layout) = Layout::of_kernel() else { return Ok(Vec::new()) };
    let mut links: BTreeMap<u32, u32> = BTreeMap::new();
    for link in LinkInfoIter::default() {
        if let LinkTypeInfo::StructOps(ops) = link.info {
            links.insert(ops.map_id, link.id);
        }
    }
    let holders = if links.is_empty() { BTreeMap::new() } else { holders() };
    let mut found = Vec::new();
    for map in MapInfoIter::default().filter(|map| map.ty == MapType::StructOps) {
        let link_id = links.get(&map.id).copied();
        // The map may have been removed meanwhile.
        let Ok(handle) = MapHandle::from_map_id(map.id) else { continue };
        let Ok(Some(value)) = handle.lookup(&0u32.to_ne_bytes(), MapFlags::empty()) else { continue };
        let Some((name, flags, state)) = layout.read(&value) else { continue };
        if name.is_empty() || (link_id.is_none() && state != IN_USE) {
            continue;
        }
        let held_by = link_id.and_then(|id| holders.get(&id).cloned()).unwrap_or_default();
        found.push(LoadedControl { name, unrestricted: flags & 1 != 0, map_id: map.id, link_id, held_by });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// BPF_STRUCT_OPS_STATE_INUSE (kernel/bpf/bpf_struct_ops.c): registered without a link.
const IN_USE: u32 = 1;

/// Offsets in the value of a congestion control's map, from the kernel's type information.
struct Layout {
    size: usize,
    state_at: usize,
    name_at: usize,
    flags_at: usize,
}

impl Layout {
    fn of_kernel() -> Option<Self> {
        let types = Btf::from_vmlinux().ok()?;
        let value: Struct<'_> = types.type_by_name("bpf_struct_ops_tcp_congestion_ops")?;
        let common: Struct<'_> = types.type_by_name("bpf_struct_ops_common_value")?;
        let ops: Struct<'_> = types.type_by_name("tcp_congestion_ops")?;
        let data = offset(&value, "data")?;
        Some(Layout {
            size: value.size(),
            state_at: offset(&value, "common")? + offset(&common, "state")?,
            name_at: data + offset(&ops, "name")?,
            flags_at: data + offset(&ops, "flags")?,
        })
    }

    /// Name, flags and state; `None` for the map of another kind of operations.
    fn read(&self, value: &[u8]) -> Option<(String, u32, u32)> {
        if value.len() != self.size {
            return None;
        }
        let number = |at: usize| Some(u32::from_ne_bytes(value.get(at..at + 4)?.try_into().ok()?));
        let name = value.get(self.name_at..self.name_at + super::names::MAX_NAME_LEN + 1)?;
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).ok()?;
        Some((name.into(), number(self.flags_at)?, number(self.state_at)?))
    }
}

fn offset(of: &Struct<'_>, member: &str) -> Option<usize> {
    let found = of.iter().find(|m| m.name.is_some_and(|n| n == member))?;
    match found.attr {
        MemberAttr::Normal { offset } => usize::try_from(offset).ok().map(|bits| bits / 8),
        MemberAttr::BitField { .. } => None,
    }
}

/// Processes by the BPF link that they hold open (proc(5), fdinfo).
fn holders() -> BTreeMap<u32, Vec<(u32, String)>> {
    let mut found: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.map(|p| p.path()) {
        let Some(pid) = process.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()) else {
            continue;
        };
        for link in links_of(&process).unwrap_or_default() {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_string();
            found.entry(link).or_default().push((pid, name));
        }
    }
    found
}

fn links_of(process: &Path) -> io::Result<Vec<u32>> {
    let descriptors: Vec<PathBuf> = fs::read_dir(process.join("fd"))?.flatten().map(|f| f.path()).collect();
    let is_link = |d: &&PathBuf| fs::read_link(d).is_ok_and(|to| to.to_string_lossy().contains("bpf"));
    let id = |d: &PathBuf| {
        let info = fs::read_to_string(process.join("fdinfo").join(d.file_name()?)).ok()?;
        info.lines().find_map(|l| l.strip_prefix("link_id:"))?.trim().parse().ok()
    };
    let mut ids: Vec<u32> = descriptors.iter().filter(is_link).filter_map(id).collect();
    ids.dedup();
    Ok(ids)
}
