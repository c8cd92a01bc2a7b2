//! The encoding of series for the page: a JSON head, then numbers in the format of the browser's typed
//! arrays.
//!
//! Little-endian: the head's length in bytes (32 bits); the head, padded with spaces so that the numbers
//! begin at a multiple of 8; for each curve its times in seconds and its values as 64-bit floats (NaN is a
//! gap), then the same for its means if it has any; then the shares of causes in bytes.

use super::documents::SeriesHead;
use super::layer::Curve;

/// The response's body.
pub(crate) fn encode(
    head: &SeriesHead,
    curves: &[Curve],
    causes: &[Vec<u8>],
) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = serde_json::to_vec(head)?;
    while !(json.len() + 4).is_multiple_of(8) {
        json.push(b' ');
    }
    let points: usize =
        curves.iter().map(|curve| curve.points.len() + curve.means.as_ref().map_or(0, Vec::len)).sum();
    let shares: usize = causes.iter().map(Vec::len).sum();
    let mut bytes = Vec::with_capacity(4 + json.len() + 16 * points + shares);
    bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
    bytes.append(&mut json);
    for points in curves.iter().flat_map(|curve| std::iter::once(&curve.points).chain(&curve.means)) {
        points.iter().for_each(|(us, _)| bytes.extend_from_slice(&(*us as f64 / 1e6).to_le_bytes()));
        points.iter().for_each(|(_, value)| bytes.extend_from_slice(&value.to_le_bytes()));
    }
    causes.iter().for_each(|shares| bytes.extend_from_slice(shares));
    Ok(bytes)
}
