//! A short text in shared memory.

/// At most `N` bytes of text; longer texts are truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Text<const N: usize> {
    len: u16,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Text {
        len: 0,
        bytes: [0; N],
    };

    /// A copy of a text, truncated if necessary.
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(N.min(text.len()));
        let mut copy = Self::EMPTY;
        copy.bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        copy.len = end as u16;
        copy
    }

    /// The text.
    pub fn get(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.len as usize]).into_owned()
    }
}

/// What keeps a text.
pub trait Keep {
    /// No text.
    const NONE: Self;

    /// Keeps a text, truncated if necessary.
    fn keep(text: &str) -> Self;

    /// The text.
    fn get(&self) -> String;
}

impl<const N: usize> Keep for Text<N> {
    const NONE: Self = Self::EMPTY;

    fn keep(text: &str) -> Self {
        Self::of(text)
    }

    fn get(&self) -> String {
        Text::get(self)
    }
}
