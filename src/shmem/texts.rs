//! Why the loads of tags have failed, in a small table beside the slots: most tags have no failure, and
//! those that fail at the same time fail for the same reason.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::text::{Keep, Text};
use crate::pg::lwlock::LockedSlice;
use crate::pg::shm::{Request, Shareable, Startup};

/// How many texts there are.
const ROOM: usize = 128;

/// The last texts. A new one takes the place of the oldest.
pub struct Texts {
    places: LockedSlice<Place, Count>,
}

/// How many texts were ever kept.
#[repr(transparent)]
struct Count(u32);

// SAFETY: it has no pointers.
unsafe impl Shareable for Count {}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Place(Text<254>);

// SAFETY: it has no pointers.
unsafe impl Shareable for Place {}

/// A text of the table, by its number, counted from 1; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct KeptText(u32);

/// Set in the postmaster, inherited by every process it forks.
static TEXTS: AtomicPtr<Texts> = AtomicPtr::new(std::ptr::null_mut());

/// Requests the memory.
pub(super) fn request_memory(request: &Request) {
    LockedSlice::<Place, Count>::request_memory(request, ROOM);
}

/// Attaches to that memory.
pub(super) fn attach(startup: &Startup) {
    let names = (c"leaf texts lock", c"leaf texts");
    let places = LockedSlice::attach(startup, names, || Count(0), ROOM, |_| Place(Text::EMPTY));
    // After a crash, this is a second value, and the old one is leaked.
    TEXTS.store(Box::into_raw(Box::new(Texts { places })), Ordering::Relaxed);
}

/// The texts; `None` in a server that has not preloaded leaf.
fn texts() -> Option<&'static Texts> {
    // SAFETY: null, or what `attach` has made, which is never freed.
    unsafe { TEXTS.load(Ordering::Relaxed).as_ref() }
}

impl Texts {
    fn keep(&self, text: &str) -> KeptText {
        let text = Place(Text::of(text));
        let mut places = self.places.write();
        let (Count(count), places) = places.parts();
        // Among the newer half: an older one would not be there for long.
        let mut numbers = (1..=*count).rev().take(ROOM / 2);
        let same = numbers.find(|&number| places[number as usize % ROOM] == text);
        KeptText(same.unwrap_or_else(|| {
            *count = count.wrapping_add(1);
            places[*count as usize % ROOM] = text;
            *count
        }))
    }

    fn get(&self, KeptText(number): KeptText) -> Option<String> {
        let places = self.places.read();
        let Count(count) = *places.head();
        let is_there = number > 0 && count.wrapping_sub(number) < ROOM as u32;
        is_there.then(|| places[number as usize % ROOM].0.get())
    }
}

impl Keep for KeptText {
    const NONE: Self = KeptText(0);

    fn keep(text: &str) -> Self {
        texts().map_or(Self::NONE, |texts| texts.keep(text))
    }

    fn get(&self) -> String {
        let text = texts().and_then(|texts| texts.get(*self));
        text.unwrap_or_else(|| "not kept any more: see the server's log".to_owned())
    }
}
