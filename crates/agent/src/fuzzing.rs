//! Fuzz targets: frames of connections, tokens of invitations, and configurations. Tests replay
//! `fuzz/corpus`.

use std::{io, path::Path, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Config, Error, Invitation,
    control::Request,
    frame::Frame,
    framing::{self, MAX_FRAME_BYTES, MAX_JOIN_BYTES},
    template,
};

/// Checks that a value is the same after it was written and read again.
fn round_trip<T: Serialize + DeserializeOwned>(value: &T) {
    let Ok(bytes) = framing::encode(value) else { return };
    let again: T = serde_json::from_slice(&bytes[4..]).expect("a frame that was written can be read");
    assert_eq!(framing::encode(&again).expect("it can be written again"), bytes);
}

/// Decodes arbitrary bytes as the input of a connection: frames with their headers, from another point or
/// from a local user.
pub fn frames(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime can be started");
    runtime.block_on(async {
        for limit in [MAX_JOIN_BYTES, MAX_FRAME_BYTES] {
            let mut stream = bytes;
            loop {
                let read = framing::read(&mut stream, Duration::from_secs(1), limit).await;
                let content = match read {
                    Ok(Some(content)) => content,
                    Ok(None) => break,
                    Err(error) => {
                        let expected = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
                        assert!(expected.contains(&error.kind()), "{error}");
                        break;
                    }
                };
                assert!(content.len() <= limit);
                if let Ok(frame) = serde_json::from_slice::<Frame>(&content) {
                    round_trip(&frame);
                }
                if let Ok(request) = serde_json::from_slice::<Request>(&content) {
                    round_trip(&request);
                }
            }
        }
    });
}

/// Decodes arbitrary bytes as the token of an invitation.
pub fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(invitation) = text.parse::<Invitation>() else { return };
    let again: Invitation = invitation.to_string().parse().expect("a token that was printed can be read");
    assert_eq!(again.to_string(), invitation.to_string());
    // The first step of joining: it may return an error, but must not panic.
    let _ = invitation.identity.client();
    let _ = invitation.identity.owner();
}

/// Decodes arbitrary bytes as agent.toml. No other file is read: the limits are those that `agent init`
/// writes.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let read = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
        Some("members.json") => Err(Error::Refused("there is no list of members".into())),
        _ => Ok(template::limits().to_string()),
    };
    match Config::parse("agent.toml", text, Path::new("/nowhere"), &read) {
        Ok(config) => {
            assert!(crate::check_name(&config.name.0).is_ok());
            assert!(config.retention.records_days <= config.retention.tests_days);
        }
        // Formatting checks that its spans are within the text.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
