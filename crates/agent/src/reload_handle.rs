//! Gives a running agent a new configuration from another thread.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::Config;

/// Gives a running agent a new configuration.
#[derive(Debug, Clone, Default)]
pub struct ReloadHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The newest configuration that the agent has not taken.
    config: Mutex<Option<Config>>,
    arrived: Notify,
}

impl ReloadHandle {
    /// Replaces the tests, their servers, the limits, the roles and the push of metrics of the agent by those
    /// of this configuration. Changes of other keys are logged: they take effect when the agent is started
    /// again.
    pub fn reload(&self, config: Config) {
        *self.0.config.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
        self.0.arrived.notify_one();
    }

    /// Waits for a configuration. A call that is cancelled loses none.
    pub(crate) async fn next(&self) -> Config {
        loop {
            let config = self.0.config.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(config) = config {
                return config;
            }
            self.0.arrived.notified().await;
        }
    }
}
