//! Ids that give nothing away: numbers that look random, from which the key leads back to
//! the id.
//!
//! A mask is a permutation of the numbers of 63 (or 53) bits: format-preserving encryption
//! with FF1 of NIST SP 800-38G and AES-256, over the bits of the number, without a tweak.
//! The key of a tag, version and width is derived from a secret with HKDF-SHA256, whose salt is
//! the tag's, so that a key that is given to a client gives away neither the secret nor other keys.

use std::fmt;

use aes::Aes256;
use fpe::ff1::{FF1, NumeralString, Operations};
use hkdf::Hkdf;
use sha2::Sha256;

/// The length of a key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// A key of AES-256.
pub type Key = [u8; KEY_LENGTH];

/// What keys are derived for: part of the derivation, so that the secret can have other uses.
const LABEL: &[u8] = b"leaf mask FF1 AES-256";

/// How many bits ids and masked ids have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 53 bits: JavaScript represents the masked ids exactly, but ids of 2⁵³ or more cannot
    /// be masked.
    Bits53,
    /// 63 bits: every id.
    Bits63,
}

impl Width {
    /// The width of this many bits, if there is one.
    pub const fn of(bits: i32) -> Option<Width> {
        match bits {
            53 => Some(Width::Bits53),
            63 => Some(Width::Bits63),
            _ => None,
        }
    }

    /// The number of bits.
    pub const fn bits(self) -> u32 {
        match self {
            Width::Bits53 => 53,
            Width::Bits63 => 63,
        }
    }

    /// The largest number of this width.
    pub const fn max(self) -> i64 {
        i64::MAX >> (63 - self.bits())
    }
}

/// The key of a tag, version and width. The salt is the tag's, and no secret.
pub fn derive_key(secret: &[u8], salt: &[u8], version: u32, width: Width) -> Key {
    let mut key = [0; KEY_LENGTH];
    let (version, bits) = (version.to_be_bytes(), width.bits().to_be_bytes());
    let info = [LABEL, &version, &bits];
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand_multi_info(&info, &mut key)
        .expect("HKDF-SHA256 gives up to 8160 bytes");
    key
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

    /// The masked number of an id; `None` if the id is negative or wider than the mask.
    pub fn mask(&self, id: i64) -> Option<i64> {
        let bits = self.bits_of(id)?;
        let masked = self.cipher.encrypt(&[], &bits);
        Some(masked.expect("the bits are a numeral string").0.number as i64)
    }

    /// The id of a masked number; `None` if the number is negative or wider than the mask.
    pub fn unmask(&self, masked: i64) -> Option<i64> {
        let bits = self.bits_of(masked)?;
        let id = self.cipher.decrypt(&[], &bits);
        Some(id.expect("the bits are a numeral string").0.number as i64)
    }

    fn bits_of(&self, number: i64) -> Option<Bits> {
        let number = (0..=self.width.max()).contains(&number).then_some(number)?;
        Some(Bits(Half {
            number: number as u64,
            bits: self.width.bits(),
        }))
    }
}

/// A number as a numeral string of radix 2, the highest bit first.
struct Bits(Half);

/// A part of it, of at most 63 bits.
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
    /// The numbers are of the same 63 bits or fewer, so arithmetic modulo 2⁶⁴ is enough.
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
