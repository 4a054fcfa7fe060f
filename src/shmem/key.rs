//! The key of a slot: a tag of a database, by name, and the identity of its row.

use leaf_core::tag;

/// How many bytes of a tag a key holds.
pub const TAG_BYTES: usize = tag::MAX_BYTES;

/// A [`KeyRef`] in shared memory. It contains the catalog's OID, so that an extension
/// that was dropped and created again never finds the slots of its predecessor.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Key {
    database: u32,
    catalog: u32,
    /// The incarnation of the tag's row.
    incarnation: [u8; 16],
    len: u32,
    tag: [u8; TAG_BYTES],
}

/// A tag of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRef<'a> {
    /// The database's OID; 0 for a free slot.
    pub database: u32,
    /// The OID of its `leaf.alloc`.
    pub catalog: u32,
    /// The tag, in the database's encoding.
    pub tag: &'a [u8],
}

/// A [`KeyRef`] by value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// The database's OID; 0 for a free slot.
    pub database: u32,
    /// The OID of its `leaf.alloc`.
    pub catalog: u32,
    /// The tag, in the database's encoding.
    pub tag: Vec<u8>,
}

impl Key {
    /// The key of a free slot.
    pub const NOBODYS: Key = Key {
        database: 0,
        catalog: 0,
        incarnation: [0; 16],
        len: 0,
        tag: [0; TAG_BYTES],
    };

    /// The key.
    pub fn get(&self) -> KeyRef<'_> {
        KeyRef {
            database: self.database,
            catalog: self.catalog,
            tag: &self.tag[..self.len as usize],
        }
    }

    /// The incarnation of the tag's row.
    pub fn incarnation(&self) -> [u8; 16] {
        self.incarnation
    }

    /// Sets the key, whose tag has at most [`TAG_BYTES`], and the incarnation of its row.
    pub fn set(&mut self, key: KeyRef<'_>, incarnation: [u8; 16]) {
        self.database = key.database;
        self.catalog = key.catalog;
        self.incarnation = incarnation;
        self.len = key.tag.len() as u32;
        self.tag[..key.tag.len()].copy_from_slice(key.tag);
    }
}

impl KeyRef<'_> {
    /// The key by value.
    pub fn to_owned(self) -> OwnedKey {
        OwnedKey {
            database: self.database,
            catalog: self.catalog,
            tag: self.tag.to_vec(),
        }
    }
}

impl OwnedKey {
    /// The key by reference.
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef {
            database: self.database,
            catalog: self.catalog,
            tag: &self.tag,
        }
    }
}
