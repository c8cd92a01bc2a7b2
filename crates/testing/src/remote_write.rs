//! Decodes the messages of Prometheus remote write 1.0 (`prometheus.WriteRequest`, without compression), for
//! receivers of tests.

/// A series of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenSeries {
    /// Names and values of the labels, as sent.
    pub labels: Vec<(String, String)>,
    /// Bits of each value, and its time in ms since 1970.
    pub samples: Vec<(u64, i64)>,
}

/// The series of a request.
///
/// # Panics
/// If the message is not a `WriteRequest` with complete labels and samples.
pub fn decode_write_request(message: &[u8]) -> Vec<WrittenSeries> {
    fields(message).into_iter().map(|field| series(bytes(field, 1))).collect()
}

fn series(message: &[u8]) -> WrittenSeries {
    let mut series = WrittenSeries { labels: Vec::new(), samples: Vec::new() };
    for field in fields(message) {
        match field {
            (1, Value::Bytes(label)) => {
                let [name, value]: [Field; 2] = fields(label).try_into().expect("a name and a value");
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                series.labels.push((text(bytes(name, 1)), text(bytes(value, 2))));
            }
            (2, Value::Bytes(sample)) => match fields(sample)[..] {
                [(1, Value::Fixed64(bits)), (2, Value::Varint(time))] => {
                    series.samples.push((bits, time.cast_signed()));
                }
                ref other => panic!("not a sample: {other:?}"),
            },
            other => panic!("not a field of a series: {other:?}"),
        }
    }
    series
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// A field with its number.
type Field<'a> = (u64, Value<'a>);

fn bytes((number, value): Field<'_>, expected: u64) -> &[u8] {
    match value {
        Value::Bytes(bytes) if number == expected => bytes,
        other => panic!("field {number} is {other:?} instead of the bytes of field {expected}"),
    }
}

/// The fields of a message.
fn fields(mut message: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = take_varint(&mut message);
        let value = match tag & 7 {
            0 => Value::Varint(take_varint(&mut message)),
            1 => {
                let bits = take(&mut message, 8).try_into().expect("8 bytes");
                Value::Fixed64(u64::from_le_bytes(bits))
            }
            2 => {
                let length = take_varint(&mut message);
                Value::Bytes(take(&mut message, usize::try_from(length).expect("a length")))
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn take<'a>(message: &mut &'a [u8], length: usize) -> &'a [u8] {
    message.split_off(..length).expect("a complete message")
}

fn take_varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint has at most 10 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_decoded() {
        let label = [0x0a, 0x06, 0x0a, 0x01, b'a', 0x12, 0x01, b'b'];
        let sample = [0x12, 0x0c, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 0xac, 0x02];
        let series = [&label[..], &sample[..]].concat();
        let request = [[0x0a, series.len() as u8].as_slice(), &series].concat();
        let labels = vec![("a".to_owned(), "b".to_owned())];
        let expected = WrittenSeries { labels, samples: vec![(1.0_f64.to_bits(), 300)] };
        assert_eq!(decode_write_request(&[request.clone(), request].concat()), [expected.clone(), expected]);
    }
}
