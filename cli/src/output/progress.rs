//! Signs of life of what takes longer than a second, on a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::pin::pin;
use std::time::{Duration, Instant};

/// How often something that takes long is said to be under way.
const EVERY: Duration = Duration::from_secs(1);

/// Does the work; says each second that it is under way.
pub async fn waiting<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let began = Instant::now();
    let mut said = Said(false);
    loop {
        if let Ok(done) = tokio::time::timeout(EVERY, work.as_mut()).await {
            return done;
        }
        said.say(&format!("{what} {}s", began.elapsed().as_secs()));
    }
}

/// Whether something is said in the last line, which is cleared when the work is done or given
/// up.
struct Said(bool);

impl Said {
    fn say(&mut self, text: &str) {
        if stderr().is_terminal() {
            self.0 = true;
            // If standard error cannot be written, nobody can be told.
            let _ = write!(stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        if self.0 {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
