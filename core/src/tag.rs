//! What a tag may be called.

/// The longest tag, in characters: `biz_tag` is a `varchar(128)`, as in
/// Meituan Leaf's table.
pub const MAX_CHARS: usize = 128;

/// The longest tag in bytes, in the widest encoding PostgreSQL stores (4 bytes
/// a character).
pub const MAX_BYTES: usize = MAX_CHARS * 4;
