//! Writes protobuf messages: the fields that remote write needs (protobuf documentation, "Encoding").

/// Wire type `I64`: 8 bytes, little-endian.
const FIXED64: u64 = 1;
/// Wire type `LEN`: a length and as many bytes.
const LENGTH_DELIMITED: u64 = 2;
/// Wire type `VARINT`.
const VARINT: u64 = 0;

/// Appends a field of the type `string`, `bytes` or of a message.
pub(super) fn add_bytes(message: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    add_tag(message, field, LENGTH_DELIMITED);
    add_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Appends a field of the type `double` with these bits.
pub(super) fn add_double(message: &mut Vec<u8>, field: u64, bits: u64) {
    add_tag(message, field, FIXED64);
    message.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a field of the type `int64`.
pub(super) fn add_int64(message: &mut Vec<u8>, field: u64, value: i64) {
    add_tag(message, field, VARINT);
    // Negative values as two's complement of 64 bits.
    add_varint(message, value.cast_unsigned());
}

fn add_tag(message: &mut Vec<u8>, field: u64, wire_type: u64) {
    add_varint(message, (field << 3) | wire_type);
}

/// Appends groups of 7 bits, the lowest first; all but the last have the highest bit set.
fn add_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(add: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = Vec::new();
        add(&mut message);
        message
    }

    /// The first two messages are examples of the protobuf documentation: `a: 150` and `b: "testing"`.
    #[test]
    fn fields_have_the_encoding_of_protobuf() {
        assert_eq!(message(|out| add_int64(out, 1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(
            message(|out| add_bytes(out, 2, b"testing")),
            [0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g']
        );
        assert_eq!(message(|out| add_int64(out, 1, 0)), [0x08, 0x00]);
        let minus_two = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(message(|out| add_int64(out, 1, -2)), minus_two);
        assert_eq!(message(|out| add_int64(out, 16, 127)), [0x80, 0x01, 0x7f], "a tag of two bytes");
        // Sign 0, exponent 0x3fd, fraction 0.
        let quarter = [0x09, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f];
        assert_eq!(message(|out| add_double(out, 1, 0.25_f64.to_bits())), quarter);
        // 300 = 0b10_0101100.
        let long = message(|out| add_bytes(out, 1, &[b'x'; 300]));
        assert_eq!((&long[..3], long.len()), ([0x0a, 0xac, 0x02].as_slice(), 303));
    }
}
