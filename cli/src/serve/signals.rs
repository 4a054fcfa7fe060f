//! Signals: the first SIGTERM or SIGINT stops gracefully, the second at once; SIGHUP reloads.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::systemd;

/// Begins to obey signals.
pub fn obey(
    stop: &CancellationToken,
    stop_now: &CancellationToken,
    reload: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let (stop, stop_now) = (stop.clone(), stop_now.clone());
    tokio::spawn(async move {
        for token in [stop, stop_now] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !token.is_cancelled() {
                tracing::info!("stopping");
                systemd::stopping();
            }
            token.cancel();
        }
    });
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            reload();
        }
    });
    Ok(())
}
