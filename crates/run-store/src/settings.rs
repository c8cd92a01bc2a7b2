//! The settings of an object store, from variables of the environment. Reading them starts nothing.

use std::fmt;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use crate::Error;
use crate::address::Address;

/// The location of an object store, and the credentials for it.
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) endpoint: String,
    is_plain: bool,
    builder: AmazonS3Builder,
}

/// Without the credentials.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The settings of this process.
    pub(crate) fn from_environment(address: Address) -> Result<Self, Error> {
        let is_allowed = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1");
        Self::check(address, AmazonS3Builder::from_env(), is_allowed)
    }

    /// The settings in `variables`, for tests in one process.
    #[cfg(test)]
    pub(crate) fn from_variables(address: Address, variables: &[(&str, String)]) -> Self {
        let set = |builder: AmazonS3Builder, (name, value): &(&str, String)| {
            builder.with_config(name.to_ascii_lowercase().parse().unwrap(), value)
        };
        Self::check(address, variables.iter().fold(AmazonS3Builder::new(), set), true).unwrap()
    }

    fn check(address: Address, builder: AmazonS3Builder, is_http_allowed: bool) -> Result<Self, Error> {
        let wrong =
            |reason: &str| Error::Settings { address: address.to_string(), reason: reason.to_owned() };
        let set = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = set(AmazonS3ConfigKey::S3Endpoint).or_else(|| set(AmazonS3ConfigKey::Endpoint));
        // Schemes are case-insensitive (RFC 3986, section 3.1).
        let is_plain = endpoint.as_ref().is_some_and(|endpoint| {
            endpoint.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
        });
        if is_plain && !is_http_allowed {
            return Err(wrong(
                "AWS_ENDPOINT_URL is not encrypted (http://): set AWS_ALLOW_HTTP=true to allow that",
            ));
        }
        let has_key = set(AmazonS3ConfigKey::AccessKeyId).is_some();
        let has_credentials = [
            AmazonS3ConfigKey::WebIdentityTokenFile,
            AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
            AmazonS3ConfigKey::ContainerCredentialsFullUri,
        ]
        .into_iter()
        .any(|key| set(key).is_some());
        let is_unsigned = set(AmazonS3ConfigKey::SkipSignature).is_some_and(|value| value == "true");
        // Only Amazon's virtual machines have credentials without variables; an endpoint that is set is
        // usually a different server.
        if endpoint.is_some() && !has_key && !has_credentials && !is_unsigned {
            return Err(wrong("there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
        }
        if has_key && set(AmazonS3ConfigKey::SecretAccessKey).is_none() {
            return Err(wrong("AWS_ACCESS_KEY_ID has no secret: set AWS_SECRET_ACCESS_KEY"));
        }
        let builder = builder.with_bucket_name(&address.bucket).with_allow_http(is_plain);
        let endpoint = endpoint.unwrap_or_else(|| "Amazon S3".into());
        Ok(Settings { address, endpoint, is_plain, builder })
    }

    /// Whether the endpoint uses HTTP without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The settings for a client.
    pub(crate) fn builder(&self) -> AmazonS3Builder {
        self.builder.clone()
    }
}
