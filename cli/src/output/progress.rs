//! Signs of life of what takes longer than a second, on a terminal.

use std::io::{IsTerminal, stderr};
use std::pin::pin;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long something may take without a sign of life.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Does the work; says that it is under way once it takes longer than a second.
pub async fn waiting<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, work.as_mut()).await {
        return done;
    }
    let bar = ProgressBar::with_draw_target(None, target()).with_elapsed(PATIENCE);
    let spinner = Spinner(bar);
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    spinner
        .0
        .set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.0.set_message(what.to_owned());
    spinner.0.enable_steady_tick(TICK);
    work.await
}

/// Is gone when the work is done or given up.
struct Spinner(ProgressBar);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn target() -> ProgressDrawTarget {
    match stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}
