//! The key of a slot: a tag of a database, by name, and the identity of its row.
//!
//! A [`Key`] has room for any name. That of a slot, a [`SlotKey`], has room for most: the few names that
//! are longer lie in a table of their own.

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

/// How many bytes of a name a [`SlotKey`] has room for.
const SHORT: usize = 196;

/// How many longer names there can be at once.
const LONG_NAMES: usize = 128;

/// The [`KeyRef`] of a slot.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SlotKey {
    database: u32,
    catalog: u32,
    incarnation: [u8; 16],
    len: u16,
    /// The place of a long name among [`LongNames`].
    place: u16,
    name: [u8; SHORT],
}

/// Names that have no room in their [`SlotKey`].
#[repr(C)]
pub struct LongNames {
    names: [[u8; TAG_BYTES]; LONG_NAMES],
    is_used: [bool; LONG_NAMES],
}

impl LongNames {
    /// No names.
    pub const EMPTY: Self = LongNames {
        names: [[0; TAG_BYTES]; LONG_NAMES],
        is_used: [false; LONG_NAMES],
    };

    /// Whether there is room for the name of a key, or it needs none here.
    pub fn have_room_for(&self, key: KeyRef<'_>) -> bool {
        key.tag.len() <= SHORT || self.is_used.contains(&false)
    }

    /// Keeps a name in a free place, of which there is one.
    fn put(&mut self, name: &[u8]) -> u16 {
        let place = self.is_used.iter().position(|is_used| !is_used);
        let place = place.unwrap_or(LONG_NAMES - 1);
        self.is_used[place] = true;
        self.names[place][..name.len()].copy_from_slice(name);
        place as u16
    }
}

impl SlotKey {
    /// The key of a free slot.
    pub const NOBODYS: SlotKey = SlotKey {
        database: 0,
        catalog: 0,
        incarnation: [0; 16],
        len: 0,
        place: 0,
        name: [0; SHORT],
    };

    /// The key.
    pub fn get<'a>(&'a self, long: &'a LongNames) -> KeyRef<'a> {
        let len = usize::from(self.len);
        KeyRef {
            database: self.database,
            catalog: self.catalog,
            tag: match self.is_long() {
                true => &long.names[usize::from(self.place)][..len],
                false => &self.name[..len],
            },
        }
    }

    /// The database; 0 for a free slot.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// The OID of its `leaf.alloc`.
    pub fn catalog(&self) -> u32 {
        self.catalog
    }

    /// Whether the name is among the long ones.
    pub fn is_long(&self) -> bool {
        usize::from(self.len) > SHORT
    }

    /// The incarnation of the tag's row.
    pub fn incarnation(&self) -> [u8; 16] {
        self.incarnation
    }

    /// The same tag, in a row with another incarnation.
    pub fn set_incarnation(&mut self, incarnation: [u8; 16]) {
        self.incarnation = incarnation;
    }

    /// Sets the key of a free slot, for which the long names have room, and the incarnation of
    /// the tag's row.
    pub fn set(&mut self, key: KeyRef<'_>, incarnation: [u8; 16], long: &mut LongNames) {
        self.database = key.database;
        self.catalog = key.catalog;
        self.incarnation = incarnation;
        self.len = key.tag.len() as u16;
        match self.is_long() {
            true => self.place = long.put(key.tag),
            false => self.name[..key.tag.len()].copy_from_slice(key.tag),
        }
    }

    /// It becomes the key of a free slot.
    pub fn clear(&mut self, long: &mut LongNames) {
        if self.is_long() {
            long.is_used[usize::from(self.place)] = false;
        }
        *self = SlotKey::NOBODYS;
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
