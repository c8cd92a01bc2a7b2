//! Byte order of capture files.

/// Byte order of the numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Decodes the number at `offset`; `None` beyond the end.
    pub(crate) fn u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let word = *bytes.get(offset..)?.first_chunk()?;
        Some(if self == ByteOrder::Little { u16::from_le_bytes(word) } else { u16::from_be_bytes(word) })
    }

    /// Decodes the number at `offset`; `None` beyond the end.
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let word = *bytes.get(offset..)?.first_chunk()?;
        Some(if self == ByteOrder::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    }
}
