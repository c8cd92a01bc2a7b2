//! The fuzz target, whose corpus `fuzz/corpus` a test replays: decodes arbitrary bytes as each of the
//! messages.

use super::{COOKIE_BYTES, Cookie, Params, Results, decode, encode};

/// Must not panic; the parameters of an accepted test must round-trip.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(cookie) = <[u8; COOKIE_BYTES]>::try_from(bytes) {
        let _ = Cookie::from_wire(cookie).map(|cookie| cookie.as_str().len());
    }
    if let Ok(results) = decode::<Results>(bytes) {
        let _ = encode(&results);
        let _ = results.longfat_samples.map(|samples| samples.rows());
    }
    if let Ok(Ok(spec)) = decode::<Params>(bytes).map(|params| params.spec()) {
        let message = encode(&Params::of(&spec)).expect("what was read can be written");
        let again = decode::<Params>(&message[4..]).expect("what was written can be read");
        assert_eq!(again.spec().as_ref(), Ok(&spec), "what was accepted is accepted again");
    }
}
