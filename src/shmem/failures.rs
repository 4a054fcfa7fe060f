//! Failures of actions that a loader repeats, and the pauses between the attempts.

use std::time::Duration;

use leaf_core::time::{Monotonic, WallTime};

use super::text::Text;
use crate::pg::clock;

/// The first pause, and the longest.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// The last failure, and the pause after it. Kept under a lock.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Failures {
    /// The pause after the last of consecutive failures; zero after a success.
    pause: Duration,
    /// When the last failure was.
    at: Option<WallTime>,
    text: Text<254>,
}

/// A failure that was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Whether it is the first since the last success.
    pub is_first: bool,
    /// When the next attempt may be made.
    pub retry_at: Monotonic,
}

impl Failures {
    /// No failure.
    pub const NONE: Failures = Failures {
        pause: Duration::ZERO,
        at: None,
        text: Text::EMPTY,
    };

    /// Records a failure. The pause grows with each, so that one bad row causes little
    /// work.
    pub fn record(&mut self, message: &str) -> Recorded {
        let is_first = self.pause.is_zero();
        self.pause = (self.pause * 2).clamp(SHORTEST, LONGEST);
        self.text = Text::of(message);
        self.at = Some(clock::now());
        Recorded {
            is_first,
            retry_at: clock::monotonic() + self.pause,
        }
    }

    /// Records why there is nothing to try again.
    pub fn note(&mut self, message: &str) {
        self.text = Text::of(message);
        self.at = Some(clock::now());
    }

    /// Forgets the message of the last failure.
    pub fn forget(&mut self) {
        self.at = None;
    }

    /// Resets the pause after a success. The last failure is kept.
    pub fn end(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// The last failure's message, if there has been one.
    pub fn message(&self) -> Option<String> {
        self.at.map(|_| self.text.get())
    }

    /// When the last failure was, if there has been one.
    pub fn at(&self) -> Option<WallTime> {
        self.at
    }
}

impl Default for Failures {
    fn default() -> Self {
        Self::NONE
    }
}
