//! Masks: ids that give nothing away.

use leaf_core::mask::{Key, Width};

use crate::Error;

/// A permutation of ids: numbers that look random, from which the key of the tag leads back to
/// the id. The same as `leaf_mask` and `leaf_unmask` in SQL.
///
/// It belongs to one version of the tag's key; [`Leaf::mask`](crate::Leaf::mask) fetches the
/// present one. After a rotation, masked ids that were given out before need a mask of their
/// version.
///
/// ```no_run
/// # fn example(leaf: &leaf_sdk::Leaf) -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::{MaskWidth, SegmentId};
///
/// let mask = leaf.mask("orders", MaskWidth::Bits63)?;
/// let shown = mask.mask(SegmentId::new(1001))?;
/// let id: SegmentId = mask.unmask(shown)?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Mask {
    version: i32,
    mask: leaf_core::mask::Mask,
}

impl Mask {
    /// The mask of a key, as `leaf_mask_key` returns it.
    ///
    /// ```
    /// use leaf_sdk::{Mask, MaskWidth};
    ///
    /// let mask = Mask::new(1, &[7; 32], MaskWidth::Bits53);
    /// let shown = mask.mask(1001).unwrap();
    /// assert_eq!(mask.unmask::<i64>(shown).unwrap(), 1001);
    /// ```
    pub fn new(version: i32, key: &Key, width: Width) -> Mask {
        let mask = leaf_core::mask::Mask::new(key, width);
        Mask { version, mask }
    }

    /// The masked number of an id.
    ///
    /// # Errors
    /// [`Error::Argument`] if the id is negative or wider than the mask.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(1, &[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert!(mask.mask(-1).is_err());
    /// ```
    pub fn mask(&self, id: impl Into<i64>) -> Result<i64, Error> {
        let id = id.into();
        self.mask.mask(id).ok_or_else(|| self.does_not_fit(id))
    }

    /// The id of a masked number. Every number is that of some id.
    ///
    /// # Errors
    /// [`Error::Argument`] if the number is negative or wider than the mask.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(1, &[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert!(mask.unmask::<i64>(1 << 53).is_err());
    /// ```
    pub fn unmask<I: From<i64>>(&self, masked: i64) -> Result<I, Error> {
        let id = self.mask.unmask(masked);
        id.map(I::from).ok_or_else(|| self.does_not_fit(masked))
    }

    /// The version of the key.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(1, &[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert_eq!(mask.version(), 1);
    /// ```
    pub fn version(&self) -> i32 {
        self.version
    }

    /// How many bits ids and masked ids have.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(1, &[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert_eq!(mask.width().bits(), 53);
    /// ```
    pub fn width(&self) -> Width {
        self.mask.width()
    }

    fn does_not_fit(&self, number: i64) -> Error {
        let bits = self.width().bits();
        Error::Argument(format!("{number} is not a number of {bits} bits"))
    }
}
