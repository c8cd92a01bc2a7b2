//! Description of a native build, read from ELF symbols and DWARF: parameters, maps, operations, and their
//! lines.

use crate::{Parameter, ParameterType};
use gimli::{AttributeValue, DebuggingInformationEntry, EndianSlice, NativeEndian, Unit, UnitOffset};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, RelocationTarget};
use std::collections::BTreeMap;

type Slice<'a> = EndianSlice<'a, NativeEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// The contents of a native build.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// Parameters in the order of the file, each with its offset in the ELF file.
    pub parameters: Vec<(Parameter, u64)>,
    /// Definitions in section `.maps`.
    pub maps: Vec<Map>,
    /// Variables of type `struct tcp_congestion_ops`, in the order of the file.
    pub operations: Vec<Operations>,
    /// Functions of the file, by address.
    pub functions: BTreeMap<u64, Function>,
    /// Functions that the file declares and calls.
    pub declared: Vec<Function>,
    /// Functions of the shim, by name.
    pub of_shim: BTreeMap<String, Function>,
    /// Address of the variable `longfat_runtime`.
    pub runtime: u64,
    /// Structures that differ from this program's: line and message.
    pub mismatches: Vec<(u32, String)>,
}

/// Structures that this program shares with the file, and their sizes, bytes.
const SHARED: [(&str, usize); 4] = [
    ("tcp_congestion_ops", size_of::<super::runtime::RawOperations>()),
    ("tcp_sock", size_of::<tcp::TcpSock>()),
    ("rate_sample", size_of::<tcp::RateSample>()),
    ("ack_sample", size_of::<tcp::AckSample>()),
];

/// Suffixes of the names of the shim's compilation units.
const SHIM_UNITS: [&str; 3] = ["native/runtime.c", "native/maps.c", "native/kernel_functions.c"];

/// A map's definition.
#[derive(Debug, Clone, Default)]
pub struct Map {
    pub name: String,
    pub line: u32,
    pub address: u64,
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub max_entries: u32,
}

impl Map {
    /// Why the native build does not support the map.
    pub fn unsupported(&self) -> Option<String> {
        // BPF_MAP_TYPE_* of vmlinux.h.
        let (array, hash) = (matches!(self.kind, 2 | 6), matches!(self.kind, 1 | 5 | 9 | 10));
        let name = &self.name;
        if !array && !hash && self.kind != 24 {
            return Some(format!(
                "map {name}: type {} is not supported natively (array, hash and SK_STORAGE are)",
                self.kind
            ));
        }
        if self.value_bytes == 0 || self.key_bytes == 0 || array && self.key_bytes != 4 {
            return Some(format!("map {name}: needs key and value, and an array a key of four bytes"));
        }
        // The native build allocates maps in full: a typing error in max_entries could exhaust the memory.
        let bytes = u64::from(self.max_entries) * u64::from(self.value_bytes);
        (self.kind != 24 && (self.max_entries == 0 || bytes > 1 << 30))
            .then(|| format!("map {name}: max_entries must be at least 1, and all values within 1 GiB"))
    }
}

/// A `struct tcp_congestion_ops` of the file.
#[derive(Debug, Clone)]
pub struct Operations {
    /// The variable's name.
    pub name: String,
    pub line: u32,
    pub address: u64,
    /// Function addresses by the member's offset.
    pub members: BTreeMap<u64, u64>,
}

/// A function's signature.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: String,
    pub line: u32,
    pub returns: Class,
    pub parameters: Vec<Class>,
}

/// Classification of a type for the check of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    Void,
    Integer(u64),
    /// Pointer to a struct of this name; empty for other pointers.
    Pointer(String),
    Other,
}

/// Inspects a shared object that was built with this crate's compiler options.
///
/// # Errors
/// If the object or its debugging information cannot be read.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, String> {
    let file = ElfFile64::<object::NativeEndian>::parse(bytes)
        .map_err(|e| format!("cannot read the object: {e}"))?;
    let section = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
        let data = file.section_by_name(id.name()).and_then(|s| s.data().ok()).unwrap_or(&[]);
        Ok(EndianSlice::new(data, NativeEndian))
    };
    let dwarf = gimli::Dwarf::load(section).map_err(dwarf_error)?;
    let mut found = Inspection::default();
    let mut units = dwarf.units();
    while let Some(header) = units.next().map_err(dwarf_error)? {
        let unit = dwarf.unit(header).map_err(dwarf_error)?;
        UnitReader { dwarf: &dwarf, unit: &unit, file: &file }.read(&mut found).map_err(dwarf_error)?;
    }
    fill_members(&file, bytes, &mut found.operations);
    read_defaults_and_scales(&mut found.parameters, bytes);
    Ok(found)
}

fn dwarf_error(error: gimli::Error) -> String {
    format!("cannot read the debugging information: {error}")
}

/// One compilation unit.
struct UnitReader<'a, 'd> {
    dwarf: &'d gimli::Dwarf<Slice<'a>>,
    unit: &'d Unit<Slice<'a>>,
    file: &'d ElfFile64<'a, object::NativeEndian>,
}

impl<'a> UnitReader<'a, '_> {
    /// Reads variables and functions of the unit's top level; of the shim's units only the functions and
    /// `longfat_runtime`.
    fn read(&self, found: &mut Inspection) -> gimli::Result<()> {
        let mut tree = self.unit.entries_tree(None)?;
        let root = tree.root()?;
        let name = self.name(root.entry())?;
        let is_shim = SHIM_UNITS.iter().any(|unit| name.ends_with(unit));
        let mut children = root.children();
        while let Some(child) = children.next()? {
            let entry = child.entry().clone();
            match entry.tag() {
                gimli::DW_TAG_variable if !is_shim || self.name(&entry)? == "longfat_runtime" => {
                    self.read_variable(&entry, found)?;
                }
                gimli::DW_TAG_subprogram => {
                    let mut parameters = Vec::new();
                    let mut inner = child.children();
                    while let Some(formal) = inner.next()? {
                        if formal.entry().tag() == gimli::DW_TAG_formal_parameter {
                            parameters.push(self.classify(self.type_of(formal.entry())?)?);
                        }
                    }
                    self.read_function(&entry, parameters, is_shim, found)?;
                }
                gimli::DW_TAG_structure_type => self.check_structure(&entry, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_function(
        &self,
        entry: &Entry<'a>,
        parameters: Vec<Class>,
        is_shim: bool,
        found: &mut Inspection,
    ) -> gimli::Result<()> {
        let returns = self.classify(self.type_of(entry)?)?;
        let function = Function { name: self.name(entry)?, line: self.line(entry)?, returns, parameters };
        match entry.attr_value(gimli::DW_AT_low_pc) {
            Some(AttributeValue::Addr(_)) if is_shim => {
                found.of_shim.insert(function.name.clone(), function);
            }
            Some(AttributeValue::Addr(address)) => {
                found.functions.insert(address, function);
            }
            _ if !is_shim && entry.attr(gimli::DW_AT_declaration).is_some() => found.declared.push(function),
            _ => {}
        }
        Ok(())
    }

    /// Checks the size of a shared structure: a file with its own definition instead of vmlinux.h would
    /// access memory outside of it.
    fn check_structure(&self, entry: &Entry<'a>, found: &mut Inspection) -> gimli::Result<()> {
        let Some(bytes) = entry.attr(gimli::DW_AT_byte_size).and_then(|a| a.udata_value()) else {
            return Ok(());
        };
        let name = self.name(entry)?;
        if SHARED.iter().any(|(shared, size)| *shared == name && *size as u64 != bytes) {
            let what = format!(
                "struct {name} differs from the one in longfat's vmlinux.h: remove this definition and include vmlinux.h"
            );
            found.mismatches.push((self.line(entry)?, what));
        }
        Ok(())
    }

    fn read_variable(&self, entry: &Entry<'a>, found: &mut Inspection) -> gimli::Result<()> {
        let Some(address) = self.address(entry)? else { return Ok(()) };
        let Some(ty) = self.type_of(entry)? else { return Ok(()) };
        let (name, line) = (self.name(entry)?, self.line(entry)?);
        if name == "longfat_runtime" {
            found.runtime = address;
            return Ok(());
        }
        let Some(section) =
            self.file.sections().find(|s| (s.address()..s.address() + s.size()).contains(&address))
        else {
            return Ok(());
        };
        if section.name() == Ok(".maps") {
            found.maps.push(Map { name, line, address, ..self.read_map(ty)? });
            return Ok(());
        }
        let (ty, is_const, is_volatile) = self.strip_qualifiers(ty)?;
        let target = self.unit.entry(ty)?;
        match target.tag() {
            gimli::DW_TAG_structure_type if self.name(&target)? == "tcp_congestion_ops" => {
                found.operations.push(Operations { name, line, address, members: BTreeMap::new() });
            }
            gimli::DW_TAG_base_type if is_const && is_volatile => {
                let Some((start, _)) = section.file_range() else { return Ok(()) };
                let Some(ty) = base_type(&target) else { return Ok(()) };
                let parameter = Parameter { name, doc: String::new(), ty, scale: None, default_raw: 0, line };
                found.parameters.push((parameter, start + (address - section.address())));
            }
            _ => {}
        }
        Ok(())
    }

    /// `__uint(name, n)` is a pointer to an array of n; `__type(name, t)` a pointer to t.
    fn read_map(&self, ty: UnitOffset) -> gimli::Result<Map> {
        let mut map = Map::default();
        let (ty, ..) = self.strip_qualifiers(ty)?;
        let mut tree = self.unit.entries_tree(Some(ty))?;
        let mut members = tree.root()?.children();
        while let Some(member) = members.next()? {
            let member = member.entry();
            let Some(pointer) = self.type_of(member)? else { continue };
            let Some(target) = self.type_of(&self.unit.entry(pointer)?)? else { continue };
            match self.name(member)?.as_str() {
                "type" => map.kind = self.element_count(target)?,
                "max_entries" => map.max_entries = self.element_count(target)?,
                "key_size" => map.key_bytes = self.element_count(target)?,
                "value_size" => map.value_bytes = self.element_count(target)?,
                "key" => map.key_bytes = self.size_bytes(target)? as u32,
                "value" => map.value_bytes = self.size_bytes(target)? as u32,
                _ => {}
            }
        }
        Ok(map)
    }

    /// Number of elements of an array.
    fn element_count(&self, array: UnitOffset) -> gimli::Result<u32> {
        let mut tree = self.unit.entries_tree(Some(array))?;
        let mut children = tree.root()?.children();
        while let Some(range) = children.next()? {
            let range = range.entry();
            if let Some(count) = range.attr(gimli::DW_AT_count).and_then(|a| a.udata_value()) {
                return Ok(count as u32);
            }
            if let Some(last) = range.attr(gimli::DW_AT_upper_bound).and_then(|a| a.udata_value()) {
                return Ok(last.wrapping_add(1) as u32);
            }
        }
        Ok(0)
    }

    /// Size of a type, bytes.
    fn size_bytes(&self, ty: UnitOffset) -> gimli::Result<u64> {
        let (ty, ..) = self.strip_qualifiers(ty)?;
        let entry = self.unit.entry(ty)?;
        if let Some(bytes) = entry.attr(gimli::DW_AT_byte_size).and_then(|a| a.udata_value()) {
            return Ok(bytes);
        }
        match (entry.tag(), self.type_of(&entry)?) {
            (gimli::DW_TAG_array_type, Some(element)) => {
                Ok(u64::from(self.element_count(ty)?) * self.size_bytes(element)?)
            }
            (gimli::DW_TAG_pointer_type, _) => Ok(8),
            _ => Ok(0),
        }
    }

    fn classify(&self, ty: Option<UnitOffset>) -> gimli::Result<Class> {
        let Some(ty) = ty else { return Ok(Class::Void) };
        let (ty, ..) = self.strip_qualifiers(ty)?;
        let entry = self.unit.entry(ty)?;
        Ok(match entry.tag() {
            gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => Class::Integer(self.size_bytes(ty)?),
            gimli::DW_TAG_pointer_type => match self.type_of(&entry)? {
                Some(target) => {
                    let target = self.unit.entry(self.strip_qualifiers(target)?.0)?;
                    let is_struct = target.tag() == gimli::DW_TAG_structure_type;
                    Class::Pointer(if is_struct { self.name(&target)? } else { String::new() })
                }
                None => Class::Pointer(String::new()),
            },
            _ => Class::Other,
        })
    }

    /// Strips typedefs and qualifiers. Returns the type, whether it was const, and whether it was volatile.
    fn strip_qualifiers(&self, mut ty: UnitOffset) -> gimli::Result<(UnitOffset, bool, bool)> {
        let (mut is_const, mut is_volatile) = (false, false);
        loop {
            let entry = self.unit.entry(ty)?;
            match entry.tag() {
                gimli::DW_TAG_typedef => {}
                gimli::DW_TAG_const_type => is_const = true,
                gimli::DW_TAG_volatile_type => is_volatile = true,
                _ => return Ok((ty, is_const, is_volatile)),
            }
            match self.type_of(&entry)? {
                Some(inner) => ty = inner,
                None => return Ok((ty, is_const, is_volatile)),
            }
        }
    }

    fn type_of(&self, entry: &Entry<'a>) -> gimli::Result<Option<UnitOffset>> {
        Ok(match entry.attr_value(gimli::DW_AT_type) {
            Some(AttributeValue::UnitRef(offset)) => Some(offset),
            _ => match self.origin(entry)? {
                Some(origin) => self.type_of(&origin)?,
                None => None,
            },
        })
    }

    /// The declaration that this entry completes, for example that of a variable that is defined later.
    fn origin(&self, entry: &Entry<'a>) -> gimli::Result<Option<Entry<'a>>> {
        let attribute = entry.attr_value(gimli::DW_AT_specification);
        match attribute.or_else(|| entry.attr_value(gimli::DW_AT_abstract_origin)) {
            Some(AttributeValue::UnitRef(offset)) => Ok(Some(self.unit.entry(offset)?)),
            _ => Ok(None),
        }
    }

    fn name(&self, entry: &Entry<'a>) -> gimli::Result<String> {
        match entry.attr_value(gimli::DW_AT_name) {
            Some(value) => Ok(self.dwarf.attr_string(self.unit, value)?.to_string_lossy().into_owned()),
            None => match self.origin(entry)? {
                Some(origin) => self.name(&origin),
                None => Ok(String::new()),
            },
        }
    }

    fn line(&self, entry: &Entry<'a>) -> gimli::Result<u32> {
        match entry.attr(gimli::DW_AT_decl_line).and_then(|a| a.udata_value()) {
            Some(line) => Ok(line as u32),
            None => match self.origin(entry)? {
                Some(origin) => self.line(&origin),
                None => Ok(0),
            },
        }
    }

    fn address(&self, entry: &Entry<'a>) -> gimli::Result<Option<u64>> {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
            return Ok(None);
        };
        let mut operations = expression.operations(self.unit.encoding());
        Ok(match operations.next()? {
            Some(gimli::Operation::Address { address }) => Some(address),
            _ => None,
        })
    }
}

/// The type of a parameter; `None` for unsupported types such as `__int128`.
fn base_type(entry: &Entry) -> Option<ParameterType> {
    let bytes = entry.attr(gimli::DW_AT_byte_size)?.udata_value()?;
    let bytes = u8::try_from(bytes).ok().filter(|bytes| *bytes <= 8)?;
    match entry.attr_value(gimli::DW_AT_encoding)? {
        AttributeValue::Encoding(gimli::DW_ATE_boolean) => Some(ParameterType::Bool),
        AttributeValue::Encoding(gimli::DW_ATE_signed | gimli::DW_ATE_signed_char) => {
            Some(ParameterType::Integer { bytes, signed: true })
        }
        AttributeValue::Encoding(gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char) => {
            Some(ParameterType::Integer { bytes, signed: false })
        }
        _ => None,
    }
}

/// Finds the functions that the operations' members point to: from the relocations that the loader would
/// apply, else from the stored word.
fn fill_members(file: &ElfFile64<object::NativeEndian>, bytes: &[u8], all: &mut [Operations]) {
    const SIZE: u64 = size_of::<super::runtime::RawOperations>() as u64;
    let mut relocated = BTreeMap::new();
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let target = match relocation.target() {
            RelocationTarget::Symbol(index) => symbol_address(file, index),
            _ => 0,
        };
        relocated.insert(at, target.wrapping_add(relocation.addend() as u64));
    }
    for operations in all {
        for offset in (0..SIZE).step_by(8) {
            let at = operations.address + offset;
            let stored = || read_word(file, bytes, at).unwrap_or(0);
            let is_pointer = super::runtime::pointer_offsets().any(|o| o == offset);
            if is_pointer {
                let function = relocated.get(&at).copied().unwrap_or_else(stored);
                if function != 0 {
                    operations.members.insert(offset, function);
                }
            }
        }
    }
}

fn symbol_address(file: &ElfFile64<object::NativeEndian>, index: object::SymbolIndex) -> u64 {
    use object::{ObjectSymbol, ObjectSymbolTable};
    let table = file.dynamic_symbol_table();
    table.and_then(|table| table.symbol_by_index(index).ok()).map_or(0, |symbol| symbol.address())
}

/// Reads the eight bytes at an address of the image.
fn read_word(file: &ElfFile64<object::NativeEndian>, bytes: &[u8], address: u64) -> Option<u64> {
    let section = file.sections().find(|s| (s.address()..s.address() + s.size()).contains(&address))?;
    let at = (section.file_range()?.0 + (address - section.address())) as usize;
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes)
}

/// Reads the default of each parameter. Removes the variables `NAME_scale`, and sets the scales of parameters
/// `NAME` to their values.
fn read_defaults_and_scales(parameters: &mut Vec<(Parameter, u64)>, bytes: &[u8]) {
    parameters.sort_by_key(|(parameter, _)| parameter.line);
    for (parameter, at) in parameters.iter_mut() {
        parameter.default_raw = read_value(bytes, *at as usize, parameter.ty);
    }
    let scales: BTreeMap<String, i64> = parameters
        .iter()
        .filter_map(|(p, _)| Some((p.name.strip_suffix("_scale")?.to_owned(), p.default_raw)))
        .filter(|(name, scale)| *scale > 0 && parameters.iter().any(|(p, _)| p.name == *name))
        .collect();
    parameters.retain(|(p, _)| !p.name.strip_suffix("_scale").is_some_and(|name| scales.contains_key(name)));
    for (parameter, _) in parameters {
        parameter.scale = scales.get(&parameter.name).copied();
    }
}

/// Reads the value of a C variable.
fn read_value(bytes: &[u8], at: usize, ty: ParameterType) -> i64 {
    let (size, signed) = match ty {
        ParameterType::Bool => (1, false),
        ParameterType::Integer { bytes, signed } => (usize::from(bytes), signed),
    };
    let Some(source) = bytes.get(at..at + size) else { return 0 };
    let mut word = [0; 8];
    word[..size].copy_from_slice(source);
    let raw = i64::from_le_bytes(word);
    let unused = 64 - 8 * size as u32;
    if signed { raw << unused >> unused } else { raw }
}
