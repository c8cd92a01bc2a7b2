//! Notifies the loop when the system's clock is stepped.

use std::{io, time::Duration};

use tokio::{net::unix::pipe::Receiver, sync::mpsc, time::sleep};

use crate::inbound::Inbound;

/// Interval at which the clock is read if the kernel reports no steps.
const POLL: Duration = Duration::from_secs(5);

/// Sends a notice to the loop whenever the system's clock is stepped.
pub(crate) async fn report_steps(inbox: mpsc::Sender<Inbound>) {
    if let Err(error) = report_kernels_steps(&inbox).await {
        tracing::info!("the kernel does not report steps of the clock ({error}); it is read every 5 s");
        while inbox.send(Inbound::ClockStepped).await.is_ok() {
            sleep(POLL).await;
        }
    }
}

async fn report_kernels_steps(inbox: &mpsc::Sender<Inbound>) -> io::Result<()> {
    // Any descriptor that does not block can be read as a pipe.
    let steps = Receiver::from_owned_fd_unchecked(os::clock_steps()?)?;
    loop {
        steps.readable().await?;
        let is_stepped = match steps.try_read(&mut [0; 8]) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(_) => true,
        };
        if is_stepped && inbox.send(Inbound::ClockStepped).await.is_err() {
            return Ok(());
        }
    }
}
