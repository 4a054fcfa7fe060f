//! Masks: ids that give nothing away.

use leaf_core::mask::{Key, Width};

use crate::Error;

/// A permutation of ids: numbers that look random, from which the key leads back to the id. The
/// same as `leaf_mask` and `leaf_unmask` in SQL.
///
/// ```
/// use leaf_sdk::{Mask, MaskWidth, SegmentId};
///
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// let mask = Mask::new(&[7; 32], MaskWidth::Bits63);
/// let shown = mask.mask(SegmentId::new(1001))?;
/// let id: SegmentId = mask.unmask(shown)?;
/// assert_eq!(id.get(), 1001);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Mask(leaf_core::mask::Mask);

impl Mask {
    /// The mask of a key, 32 random bytes that are kept secret.
    ///
    /// ```
    /// use leaf_sdk::{Mask, MaskWidth};
    ///
    /// let mask = Mask::new(&[7; 32], MaskWidth::Bits53);
    /// let shown = mask.mask(1001).unwrap();
    /// assert_eq!(mask.unmask::<i64>(shown).unwrap(), 1001);
    /// ```
    pub fn new(key: &Key, width: Width) -> Mask {
        Mask(leaf_core::mask::Mask::new(key, width))
    }

    /// The masked number of an id.
    ///
    /// # Errors
    /// [`Error::Argument`] if the width does not have the id.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(&[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert!(mask.mask(-1).is_err());
    /// ```
    pub fn mask(&self, id: impl Into<i64>) -> Result<i64, Error> {
        let id = id.into();
        self.0.mask(id).ok_or_else(|| self.does_not_fit(id))
    }

    /// The id of a masked number. Every number is that of some id.
    ///
    /// # Errors
    /// [`Error::Argument`] if the width does not have the number.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(&[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert!(mask.unmask::<i64>(1 << 53).is_err());
    /// ```
    pub fn unmask<I: From<i64>>(&self, masked: i64) -> Result<I, Error> {
        let id = self.0.unmask(masked);
        id.map(I::from).ok_or_else(|| self.does_not_fit(masked))
    }

    /// How many bits ids and masked ids have.
    ///
    /// ```
    /// # let mask = leaf_sdk::Mask::new(&[7; 32], leaf_sdk::MaskWidth::Bits53);
    /// assert_eq!(mask.width().bits(), 53);
    /// ```
    pub fn width(&self) -> Width {
        self.0.width()
    }

    fn does_not_fit(&self, number: i64) -> Error {
        let bits = self.width().bits();
        Error::Argument(format!("{number} is not a number of {bits} bits"))
    }
}
