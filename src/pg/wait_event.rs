//! Wait events, which `pg_stat_activity` shows.

#[cfg(any(feature = "pg17", feature = "pg18", feature = "pg19"))]
use std::sync::atomic::{AtomicU32, Ordering};

use pgrx::pg_sys;

/// A wait event of leaf. Before PostgreSQL 17, all are shown as `Extension`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEvent {
    /// `LeafSegment`: ids of a tag, from the loader.
    Segment,
    /// `LeafSnowflake`: snowflake ids: the next tick, the clock, or the loader.
    Snowflake,
    /// `LeafLoaderMain`: the loader, for something to do, or for an answer of the centre.
    LoaderMain,
    /// `LeafCeilingFile`: the lock on the files of ceilings.
    CeilingFile,
}

impl WaitEvent {
    /// The number by which PostgreSQL knows the event.
    #[cfg(any(feature = "pg17", feature = "pg18", feature = "pg19"))]
    pub fn number(self) -> u32 {
        /// As this process has learnt them; 0 if it has not.
        static NUMBERS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
        let (known, name) = match self {
            WaitEvent::Segment => (&NUMBERS[0], c"LeafSegment"),
            WaitEvent::Snowflake => (&NUMBERS[1], c"LeafSnowflake"),
            WaitEvent::LoaderMain => (&NUMBERS[2], c"LeafLoaderMain"),
            WaitEvent::CeilingFile => (&NUMBERS[3], c"LeafCeilingFile"),
        };
        match known.load(Ordering::Relaxed) {
            0 => {
                // SAFETY: a C string, which is copied.
                let number = unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) };
                known.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }

    /// The number by which PostgreSQL knows the event.
    #[cfg(not(any(feature = "pg17", feature = "pg18", feature = "pg19")))]
    pub fn number(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }
}
