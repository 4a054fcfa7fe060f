//! Failures of actions that a loader repeats, and the pauses between the attempts.

use std::time::Duration;

use leaf_core::time::{Monotonic, WallTime};

use super::text::{Keep, Text};
use crate::pg::clock;

/// The first pause, and the longest, in milliseconds.
const SHORTEST: u32 = 10;
const LONGEST: u32 = 500;

/// The last failure, and the pause after it. Kept under a lock.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Failures<T = Text<254>> {
    /// When the last failure was; the beginning of 1970 for none.
    at: WallTime,
    /// The pause after the last of consecutive failures, in milliseconds; 0 after a success.
    pause: u32,
    text: T,
}

/// A failure that was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Whether it is the first since the last success.
    pub is_first: bool,
    /// When the next attempt may be made.
    pub retry_at: Monotonic,
}

const NEVER: WallTime = WallTime::from_unix_us(0);

impl<T: Keep> Failures<T> {
    /// No failure.
    pub const NONE: Self = Failures {
        at: NEVER,
        pause: 0,
        text: T::NONE,
    };

    /// Records a failure. The pause grows with each, so that one bad row causes little
    /// work.
    pub fn record(&mut self, message: &str) -> Recorded {
        let is_first = self.pause == 0;
        self.pause = (self.pause * 2).clamp(SHORTEST, LONGEST);
        self.note(message);
        Recorded {
            is_first,
            retry_at: clock::monotonic() + Duration::from_millis(self.pause.into()),
        }
    }

    /// Records why there is nothing to try again.
    pub fn note(&mut self, message: &str) {
        self.text = T::keep(message);
        self.at = clock::now();
    }

    /// Forgets the message of the last failure.
    pub fn forget(&mut self) {
        self.at = NEVER;
    }

    /// Resets the pause after a success. The last failure is kept.
    pub fn end(&mut self) {
        self.pause = 0;
    }

    /// The last failure's message, if there has been one.
    pub fn message(&self) -> Option<String> {
        self.at().map(|_| self.text.get())
    }

    /// When the last failure was, if there has been one.
    pub fn at(&self) -> Option<WallTime> {
        (self.at != NEVER).then_some(self.at)
    }
}

impl<T: Keep> Default for Failures<T> {
    fn default() -> Self {
        Self::NONE
    }
}
