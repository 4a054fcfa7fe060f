//! What systemd is told. Without it, nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The server is ready.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The server is being stopped.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the watchdog, if there is one, that the server still runs.
pub async fn keep_watchdog() {
    let Some(period) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut ticks = tokio::time::interval((period / 3).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        // The socket may be full: that must not hold up requests.
        let told = tokio::task::spawn_blocking(|| tell(&[NotifyState::Watchdog]));
        let _ = told.await;
    }
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, "could not notify systemd");
    }
}
