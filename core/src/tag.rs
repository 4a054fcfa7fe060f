//! How long the name of a tag can be.

/// Maximum length of a tag, in characters: `biz_tag` is a `varchar(128)`, as in
/// Meituan Leaf's table.
pub const MAX_CHARS: usize = 128;

/// Maximum length of a tag, in bytes: the widest server encodings of PostgreSQL
/// have 4 bytes per character.
pub const MAX_BYTES: usize = MAX_CHARS * 4;
