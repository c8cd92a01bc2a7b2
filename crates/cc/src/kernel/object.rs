//! What an eBPF object says about itself (BTF): its congestion controls and where its parameters are.

use std::{collections::BTreeMap, sync::OnceLock};

use libbpf_rs::{
    AsRawLibbpf, MapType, OpenMap, OpenMapMut, OpenObject, OpenProgram,
    btf::{
        Btf, BtfType, ReferencesType,
        types::{DataSec, FuncProto, MemberAttr, Ptr, Struct, Var},
    },
};

use super::{Error, compile, error::Attempted};
use crate::Source;

/// The kernel's structure that a congestion control fills in.
const OPS: &str = "tcp_congestion_ops";

/// One congestion control of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpsInfo {
    /// The C variable.
    pub variable: String,
    /// The name that the file gives it.
    pub name: String,
    /// TCP_CONG_NON_RESTRICTED (1), TCP_CONG_NEEDS_ECN (2).
    pub flags: u32,
}

/// Where things are in an object's sections, in bytes.
#[derive(Debug)]
pub(super) struct Layout {
    /// Parameters and other constants: offset and size in `.rodata`.
    constants: BTreeMap<String, (usize, usize)>,
    /// Variables of type `struct tcp_congestion_ops`, in the file's order.
    variables: Vec<String>,
    /// Members of the file's `struct tcp_congestion_ops`: name and offset.
    members: Vec<(String, usize)>,
    name_at: usize,
    name_size: usize,
    flags_at: usize,
}

/// The congestion controls of a source, in the file's order.
///
/// # Errors
/// As [`super::compile`]; [`Error::NoOps`] for a file without any.
pub fn ops(source: &Source) -> Result<Vec<OpsInfo>, Error> {
    let object = compile(source)?;
    let layout = Layout::of(source.name(), &object)?;
    let open = open(source.name(), &object)?;
    layout.ops(&open, source.name())
}

/// Which of a file's congestion controls is meant by the file: the last whose variable or name is the file's own, else the first.
pub(super) fn main_of<'a>(ops: &'a [OpsInfo], file: &str) -> Option<&'a OpsInfo> {
    let own = |o: &&OpsInfo| o.variable == file || o.name == file;
    ops.iter().rfind(own).or(ops.first())
}

/// Opens an object for loading.
pub(super) fn open(name: &str, object: &[u8]) -> Result<OpenObject, Error> {
    let mut builder = libbpf_rs::ObjectBuilder::default();
    // The name is that of sections' maps in the kernel, in which not every character may be.
    builder
        .name("longfat")
        .and_then(|b| b.open_memory(object))
        .attempted(|| format!("read the eBPF object of {name}"))
}

/// Whether it is a congestion control's map.
pub(super) fn is_ops(map: &OpenMap<'_>) -> bool {
    map.map_type() == MapType::StructOps
}

impl Layout {
    pub(super) fn of(name: &str, object: &[u8]) -> Result<Self, Error> {
        // libbpf would tell the terminal of sections that it does not know, of which nothing comes.
        super::load::listen();
        let types = Btf::from_raw("longfat", object).attempted(|| format!("read the types of {name}"))?;
        let no_ops = || Error::NoOps { name: name.into() };
        let types = types.ok_or_else(no_ops)?;
        let ops: Struct<'_> = types.type_by_name(OPS).ok_or_else(no_ops)?;
        let member = |wanted: &str| {
            let found = ops.iter().find(|m| m.name.is_some_and(|n| n == wanted))?;
            let MemberAttr::Normal { offset } = found.attr else { return None };
            Some((usize::try_from(offset).ok()? / 8, found.ty))
        };
        let members = ops
            .iter()
            .filter_map(|m| {
                let MemberAttr::Normal { offset } = m.attr else { return None };
                Some((text(m.name), usize::try_from(offset).ok()? / 8))
            })
            .collect();
        let (name_at, _) = member("name").ok_or_else(no_ops)?;
        let (flags_at, _) = member("flags").ok_or_else(no_ops)?;
        let variables = [".struct_ops", ".struct_ops.link"]
            .iter()
            .filter_map(|section| types.type_by_name::<DataSec<'_>>(section))
            .flat_map(|section| {
                let are_ops = section.iter().filter_map(|entry| {
                    let variable: Var<'_> = types.type_by_id(entry.ty)?;
                    is_named(variable.referenced_type().skip_mods_and_typedefs(), OPS)
                        .then(|| text(variable.name()))
                });
                are_ops.collect::<Vec<_>>()
            })
            .collect();
        let constants = types.type_by_name::<DataSec<'_>>(".rodata").map_or_else(BTreeMap::new, |section| {
            let named = section.iter().filter_map(|entry| {
                let variable: Var<'_> = types.type_by_id(entry.ty)?;
                Some((text(variable.name()), (usize::try_from(entry.offset).ok()?, entry.size)))
            });
            named.collect()
        });
        Ok(Layout { constants, variables, members, name_at, name_size: super::names::LONGEST + 1, flags_at })
    }

    /// The congestion controls of an object.
    pub(super) fn ops(&self, open: &OpenObject, file: &str) -> Result<Vec<OpsInfo>, Error> {
        let described = |map: OpenMap<'_>| {
            let value = map.initial_value()?;
            let name = value.get(self.name_at..self.name_at + self.name_size)?;
            let name = name.split(|b| *b == 0).next().unwrap_or_default();
            Some(OpsInfo {
                variable: map.name().to_string_lossy().into_owned(),
                name: String::from_utf8_lossy(name).into_owned(),
                flags: u32::from_ne_bytes(value.get(self.flags_at..self.flags_at + 4)?.try_into().ok()?),
            })
        };
        let found: Vec<OpsInfo> = open
            .maps()
            .filter(is_ops)
            .filter(|map| self.variables.iter().any(|v| map.name() == v.as_str()))
            .filter_map(described)
            .collect();
        if found.is_empty() { Err(Error::NoOps { name: file.into() }) } else { Ok(found) }
    }

    /// Writes name and flags of a congestion control that is not loaded yet.
    pub(super) fn set_name_and_flags(&self, map: &mut OpenMapMut<'_>, name: &str, flags: u32) -> Option<()> {
        let value = map.initial_value_mut()?;
        let mut padded = name.as_bytes().to_vec();
        padded.resize(self.name_size, 0);
        value.get_mut(self.name_at..self.name_at + self.name_size)?.copy_from_slice(&padded);
        value.get_mut(self.flags_at..self.flags_at + 4)?.copy_from_slice(&flags.to_ne_bytes());
        Some(())
    }

    /// Clears operations that the running kernel does not have and whose program is optional: in section `?struct_ops`.
    /// The loader refuses the others.
    pub(super) fn leave_optional_members_out(&self, open: &mut OpenObject) {
        let Some(known) = members_in_kernel() else { return };
        let unknown: Vec<usize> =
            self.members.iter().filter(|(name, _)| !known.contains(name)).map(|(_, at)| *at).collect();
        if unknown.is_empty() {
            return;
        }
        // Until the object is loaded, a member that points to a program has the address of libbpf's own structure for it.
        // Its sections' names have lost the mark by now, but such programs are not loaded for their own sake.
        let is_optional = |program: &OpenProgram<'_>| !program.autoload();
        let optional: Vec<usize> =
            open.progs().filter(is_optional).map(|p| p.as_libbpf_object().as_ptr() as usize).collect();
        for mut map in open.maps_mut().filter(|map| is_ops(map)) {
            let Some(value) = map.initial_value_mut() else { continue };
            for at in &unknown {
                let Some(member) = value.get_mut(*at..*at + size_of::<usize>()) else { continue };
                if optional.iter().any(|program| member == program.to_ne_bytes()) {
                    member.fill(0);
                }
            }
        }
    }

    /// Writes constants of an object that is not loaded yet.
    ///
    /// # Errors
    /// The name of one that is not there, or of another size.
    pub(super) fn set_constants<'a>(
        &self,
        open: &mut OpenObject,
        values: &[(&'a str, Vec<u8>)],
    ) -> Result<(), &'a str> {
        let mut map = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(".rodata"));
        values.iter().try_for_each(|(name, bytes)| {
            let section = map.as_mut().and_then(OpenMapMut::initial_value_mut).ok_or(*name)?;
            let (at, size) = *self.constants.get(*name).ok_or(*name)?;
            let place = section.get_mut(at..at + size).filter(|p| p.len() == bytes.len()).ok_or(*name)?;
            place.copy_from_slice(bytes);
            Ok(())
        })
    }
}

/// The members of the running kernel's `struct tcp_congestion_ops`; `None` where it does not describe its types.
fn members_in_kernel() -> Option<&'static [String]> {
    static MEMBERS: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let read = || {
        let types = Btf::from_vmlinux().ok()?;
        let ops: Struct<'_> = types.type_by_name(OPS)?;
        Some(ops.iter().map(|member| text(member.name)).collect())
    };
    MEMBERS.get_or_init(read).as_deref()
}

/// How many arguments the running kernel gives cong_control: 2 before Linux 6.10, then 4. `None` where it does not say.
pub(super) fn cong_control_arguments() -> Option<usize> {
    static ARGUMENTS: OnceLock<Option<usize>> = OnceLock::new();
    let read = || {
        let types = Btf::from_vmlinux().ok()?;
        let ops: Struct<'_> = types.type_by_name(OPS)?;
        let member = ops.iter().find(|m| m.name.is_some_and(|n| n == "cong_control"))?;
        let pointer: Ptr<'_> = types.type_by_id(member.ty)?;
        let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
        Some(function.iter().count())
    };
    *ARGUMENTS.get_or_init(read)
}

fn is_named(of: BtfType<'_>, name: &str) -> bool {
    of.name().is_some_and(|n| n == name)
}

fn text(name: Option<&std::ffi::OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}
