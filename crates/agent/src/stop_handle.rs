//! Stops a running agent from another thread.

use std::sync::Arc;

use tokio::sync::Notify;

/// Stops a running agent.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<Notify>);

impl StopHandle {
    /// Ends the agent: running tests are stopped and recorded.
    pub fn stop(&self) {
        self.0.notify_one();
    }

    /// Waits for [`StopHandle::stop`].
    pub(crate) async fn stopped(&self) {
        self.0.notified().await;
    }
}
