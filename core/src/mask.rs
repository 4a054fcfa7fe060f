//! Ids that give nothing away: numbers that look random, from which the key leads back to
//! the id.
//!
//! A mask is a permutation of the numbers of 64 (or 63, or 53) bits: format-preserving encryption
//! with FF1 of NIST SP 800-38G and AES-256, over the bits of the number, without a tweak. FF1
//! encrypts the number of bits, too, so that the widths of a key are permutations of their own.
//!
//! The permutation is frozen: another one gets another name.

use std::fmt;

use aes::Aes256;
use fpe::ff1::{FF1, NumeralString, Operations};

/// The length of a key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// A key of AES-256.
pub type Key = [u8; KEY_LENGTH];

/// How many bits ids and masked ids have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 53 bits: JavaScript represents the masked ids exactly, but ids of 2⁵³ or more cannot
    /// be masked.
    Bits53,
    /// 63 bits: every id from 0 on, and no masked id is negative.
    Bits63,
    /// 64 bits: every `i64`.
    Bits64,
}

impl Width {
    /// The width of this many bits, if there is one.
    pub const fn of(bits: i32) -> Option<Width> {
        match bits {
            53 => Some(Width::Bits53),
            63 => Some(Width::Bits63),
            64 => Some(Width::Bits64),
            _ => None,
        }
    }

    /// The number of bits.
    pub const fn bits(self) -> u32 {
        match self {
            Width::Bits53 => 53,
            Width::Bits63 => 63,
            Width::Bits64 => 64,
        }
    }

    /// Whether it has this number.
    pub const fn has(self, number: i64) -> bool {
        number.cast_unsigned() <= u64::MAX >> (64 - self.bits())
    }
}

/// A permutation of the numbers of a width.
///
/// ```
/// use leaf_core::mask::{Mask, Width};
///
/// let mask = Mask::new(&[7; 32], Width::Bits63);
/// let masked = mask.mask(1001).unwrap();
/// assert_ne!(masked, 1001);
/// assert_eq!(mask.unmask(masked), Some(1001));
/// assert_eq!(mask.mask(-1), None);
/// ```
pub struct Mask {
    cipher: FF1<Aes256>,
    width: Width,
}

impl fmt::Debug for Mask {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mask = f.debug_struct("Mask");
        mask.field("width", &self.width).finish_non_exhaustive()
    }
}

impl Mask {
    /// The permutation of a key.
    pub fn new(key: &Key, width: Width) -> Mask {
        let cipher = FF1::new(key, 2).expect("radix 2 is allowed");
        Mask { cipher, width }
    }

    /// The width.
    pub fn width(&self) -> Width {
        self.width
    }

    /// The masked number of an id; `None` if the width does not have the id.
    pub fn mask(&self, id: i64) -> Option<i64> {
        let bits = self.bits_of(id)?;
        let masked = self.cipher.encrypt(&[], &bits);
        Some(masked.expect("the bits are a numeral string").0.number as i64)
    }

    /// The id of a masked number; `None` if the width does not have the number.
    pub fn unmask(&self, masked: i64) -> Option<i64> {
        let bits = self.bits_of(masked)?;
        let id = self.cipher.decrypt(&[], &bits);
        Some(id.expect("the bits are a numeral string").0.number as i64)
    }

    fn bits_of(&self, number: i64) -> Option<Bits> {
        let number = self.width.has(number).then_some(number)?;
        Some(Bits(Half {
            number: number.cast_unsigned(),
            bits: self.width.bits(),
        }))
    }
}

/// A number as a numeral string of radix 2, the highest bit first.
struct Bits(Half);

/// A part of it, or all of it.
#[derive(Clone, Copy)]
struct Half {
    number: u64,
    bits: u32,
}

impl NumeralString for Bits {
    type Ops = Half;

    fn is_valid(&self, radix: u32) -> bool {
        radix == 2
    }

    fn numeral_count(&self) -> usize {
        self.0.bits as usize
    }

    fn split(&self) -> (Half, Half) {
        let (number, upper) = (self.0.number, self.0.bits / 2);
        let lower = self.0.bits - upper;
        let half = |number, bits| Half { number, bits };
        (
            half(number >> lower, upper),
            half(number & ((1 << lower) - 1), lower),
        )
    }

    fn concat(a: Half, b: Half) -> Bits {
        Bits(Half {
            number: a.number << b.bits | b.number,
            bits: a.bits + b.bits,
        })
    }
}

impl Half {
    /// Half of a number has 32 bits or fewer, so arithmetic modulo 2⁶⁴ is enough.
    fn reduced(number: u64, bits: usize) -> Half {
        Half {
            number: number & ((1 << bits) - 1),
            bits: bits as u32,
        }
    }
}

/// The number that big-endian bytes stand for, modulo 2⁶⁴.
fn number(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0, |number, byte| number << 8 | u64::from(byte))
}

impl Operations for Half {
    type Bytes = Bytes;

    fn numeral_count(&self) -> usize {
        self.bits as usize
    }

    fn to_be_bytes(&self, _radix: u32, count: usize) -> Bytes {
        Bytes {
            bytes: self.number.to_be_bytes(),
            count,
        }
    }

    fn add_mod_exp(self, other: impl Iterator<Item = u8>, _radix: u32, bits: usize) -> Half {
        Half::reduced(self.number.wrapping_add(number(other)), bits)
    }

    fn sub_mod_exp(self, other: impl Iterator<Item = u8>, _radix: u32, bits: usize) -> Half {
        Half::reduced(self.number.wrapping_sub(number(other)), bits)
    }
}

/// The last bytes of a number.
struct Bytes {
    bytes: [u8; 8],
    count: usize,
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[8 - self.count..]
    }
}
