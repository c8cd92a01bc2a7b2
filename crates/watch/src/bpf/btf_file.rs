//! A kernel's BTF (Documentation/bpf/btf.rst) as a file, in which tests change members: the loader then
//! relocates the programs for another kernel.

use std::io;

const HEADER_MAGIC: u16 = 0xeb9f;
/// Bytes of `struct btf_type`.
const TYPE_BYTES: usize = 12;
/// Bytes of `struct btf_member`: name, type, offset.
const MEMBER_BYTES: usize = 12;
const KIND_STRUCT: u32 = 4;

/// The bytes of a kernel's BTF.
#[derive(Clone)]
pub(crate) struct BtfFile {
    bytes: Vec<u8>,
}

impl BtfFile {
    pub(crate) fn of_this_kernel() -> io::Result<BtfFile> {
        let bytes = std::fs::read("/sys/kernel/btf/vmlinux")?;
        assert_eq!(u16::from_ne_bytes([bytes[0], bytes[1]]), HEADER_MAGIC);
        Ok(BtfFile { bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes a member of a struct a bit-field of this size at the same place; 0: no bit-field.
    pub(crate) fn set_bit_field_size(&mut self, structure: &str, member: &str, bits: u8) {
        let members = self.members(structure);
        let mut all = members.clone().step_by(MEMBER_BYTES);
        let found = all.find(|at| self.name(self.word(*at)) == member.as_bytes()).expect("the member");
        // The upper byte of the offset is the size, because the struct has bit-fields (kind_flag).
        let offset = self.word(found + 8) & 0x00ff_ffff | u32::from(bits) << 24;
        self.bytes[found + 8..found + 12].copy_from_slice(&offset.to_ne_bytes());
    }

    /// The bytes of a struct's members.
    fn members(&self, structure: &str) -> std::ops::Range<usize> {
        let header = self.word(4) as usize;
        let (first, end) = (header + self.word(8) as usize, header + (self.word(8) + self.word(12)) as usize);
        let mut at = first;
        while at < end {
            let info = self.word(at + 4);
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let data = data_bytes(kind, count);
            if kind == KIND_STRUCT && self.name(self.word(at)) == structure.as_bytes() {
                assert_eq!(info >> 31, 1, "{structure} has bit-fields");
                return at + TYPE_BYTES..at + TYPE_BYTES + data;
            }
            at += TYPE_BYTES + data;
        }
        panic!("there is no struct {structure}");
    }

    /// The name at this offset of the strings.
    fn name(&self, offset: u32) -> &[u8] {
        let from = (self.word(4) + self.word(16) + offset) as usize;
        self.bytes[from..].split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }
}

/// Bytes that follow a type of this kind with `count` members.
fn data_bytes(kind: u32, count: usize) -> usize {
    match kind {
        // Integers, variables, declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structs, unions, sections, 64-bit enumerations.
        4 | 5 | 15 | 19 => 12 * count,
        // Enumerations, function prototypes.
        6 | 13 => 8 * count,
        _ => 0,
    }
}
