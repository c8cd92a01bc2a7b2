//! The type information (BTF) of an eBPF object: its congestion controls and the positions of its parameters.

use std::collections::BTreeMap;

use libbpf_rs::{
    AsRawLibbpf, MapType, OpenMap, OpenMapMut, OpenObject, OpenProgram,
    btf::{
        Btf, BtfType, ReferencesType,
        types::{DataSec, MemberAttr, Struct, Var},
    },
};

use super::{
    Error, compile,
    error::Attempted,
    kernel_types::{OPS, members_in_kernel},
    libbpf_log::redirect_log,
    names,
};
use crate::Source;

/// One congestion control of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpsInfo {
    /// The C variable.
    pub variable: String,
    /// Its `.name` in the file.
    pub name: String,
    /// TCP_CONG_NON_RESTRICTED (1), TCP_CONG_NEEDS_ECN (2).
    pub flags: u32,
}

/// Offsets in an object's sections, bytes.
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
/// As [`super::compile`], and [`Error::NoOps`] for a file without any.
pub fn ops(source: &Source) -> Result<Vec<OpsInfo>, Error> {
    let object = compile(source)?;
    let layout = Layout::of(source.name(), &object)?;
    let open = open(source.name(), &object)?;
    layout.ops(&open, source.name())
}

/// The main congestion control of a file: the last one whose variable or name is that of the file, else the
/// first.
pub(super) fn main_of<'a>(ops: &'a [OpsInfo], file: &str) -> Option<&'a OpsInfo> {
    let own = |o: &&OpsInfo| o.variable == file || o.name == file;
    ops.iter().rfind(own).or(ops.first())
}

/// Opens an object for loading.
pub(super) fn open(name: &str, object: &[u8]) -> Result<OpenObject, Error> {
    let mut builder = libbpf_rs::ObjectBuilder::default();
    // The name becomes part of the names of maps in the kernel, which allow few characters.
    builder
        .name("longfat")
        .and_then(|b| b.open_memory(object))
        .attempted(|| format!("read the eBPF object of {name}"))
}

/// Whether a map holds a congestion control.
pub(super) fn is_ops(map: &OpenMap<'_>) -> bool {
    map.map_type() == MapType::StructOps
}

impl Layout {
    pub(super) fn of(name: &str, object: &[u8]) -> Result<Self, Error> {
        // Otherwise libbpf would print harmless warnings about unknown sections.
        redirect_log();
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
        Ok(Layout { constants, variables, members, name_at, name_size: names::MAX_NAME_LEN + 1, flags_at })
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

    /// Clears operations that the running kernel does not have if their program is optional (section
    /// `?struct_ops`). libbpf refuses the others.
    pub(super) fn clear_unsupported_members(&self, open: &mut OpenObject) {
        let Some(known) = members_in_kernel() else { return };
        let unknown: Vec<usize> =
            self.members.iter().filter(|(name, _)| !known.contains(name)).map(|(_, at)| *at).collect();
        if unknown.is_empty() {
            return;
        }
        // Until the object is loaded, a member that points to a program holds the address of libbpf's
        // structure for the program. The `?` of the section's name is already removed, but autoload is off
        // for such programs.
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
    /// The name of a constant that does not exist or has another size.
    pub(super) fn set_constants<'a>(
        &self,
        open: &mut OpenObject,
        values: &[(&'a str, Vec<u8>)],
    ) -> Result<(), &'a str> {
        let mut map = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(".rodata"));
        values.iter().try_for_each(|(name, bytes)| {
            let section = map.as_mut().and_then(OpenMapMut::initial_value_mut).ok_or(*name)?;
            let (at, size) = *self.constants.get(*name).ok_or(*name)?;
            let target = section.get_mut(at..at + size).filter(|p| p.len() == bytes.len()).ok_or(*name)?;
            target.copy_from_slice(bytes);
            Ok(())
        })
    }
}

fn is_named(of: BtfType<'_>, name: &str) -> bool {
    of.name().is_some_and(|n| n == name)
}

fn text(name: Option<&std::ffi::OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}
