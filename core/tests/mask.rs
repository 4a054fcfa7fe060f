//! Masks: as NIST's samples and the vectors say, and a permutation of all numbers.
#![cfg(not(loom))]

use aes::Aes256;
use fpe::ff1::{FF1, FlexibleNumeralString};
use leaf_core::mask::{Key, Mask, Width};
use proptest::prelude::*;

/// Computed without this crate; shared by all that masks.
const VECTORS: &str = include_str!("../vectors/mask.csv");

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex");
    assert_eq!(hex.len(), 2 * N);
    std::array::from_fn(byte)
}

#[test]
fn masked_ids_of_the_vectors_are_what_the_vectors_say() {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines.skip(1) {
        let fields: Vec<&str> = line.split(';').collect();
        let [key, bits, id, masked] = fields[..] else {
            panic!("not four fields: {line}");
        };
        let number = |text: &str| text.parse::<i64>().expect("a number");
        let width = Width::of(number(bits) as i32).expect("a width");
        let mask = Mask::new(&bytes(key), width);
        assert_eq!(mask.mask(number(id)), Some(number(masked)), "{line}");
        assert_eq!(mask.unmask(number(masked)), Some(number(id)), "{line}");
        count += 1;
    }
    assert!(count > 50, "only {count} vectors");
}

/// Samples 7, 8 and 9 of NIST's FF1samples.pdf: the cipher that masks are made of.
#[test]
fn the_cipher_agrees_with_the_samples_of_nist() {
    let key: Key = bytes("2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94");
    let samples: [(u32, &[u8], &str, &str); 3] = [
        (10, b"", "0123456789", "6657667009"),
        (10, b"9876543210", "0123456789", "1001623463"),
        (
            36,
            b"7777pqrs777",
            "0123456789abcdefghi",
            "xs8a0azh2avyalyzuwd",
        ),
    ];
    for (radix, tweak, plain, cipher) in samples {
        let numerals = |text: &str| {
            let digits = text
                .chars()
                .map(|c| c.to_digit(36).expect("a digit") as u16);
            FlexibleNumeralString::from(digits.collect::<Vec<_>>())
        };
        let ff1 = FF1::<Aes256>::new(&key, radix).expect("a radix");
        let encrypted = ff1.encrypt(tweak, &numerals(plain)).expect("numerals");
        assert_eq!(Vec::from(encrypted), Vec::from(numerals(cipher)));
        let decrypted = ff1.decrypt(tweak, &numerals(cipher)).expect("numerals");
        assert_eq!(Vec::from(decrypted), Vec::from(numerals(plain)));
    }
}

#[test]
fn a_mask_does_not_show_its_key() {
    let shown = format!("{:?}", Mask::new(&[0xAB; 32], Width::Bits53));
    assert_eq!(shown, "Mask { width: Bits53, .. }");
}

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![
        Just(Width::Bits53),
        Just(Width::Bits63),
        Just(Width::Bits64)
    ]
}

proptest! {
    #[test]
    fn an_id_comes_back_and_stays_within_the_width(key: Key, width in width(), id: i64) {
        let id = (id.cast_unsigned() >> (64 - width.bits())).cast_signed();
        let mask = Mask::new(&key, width);
        let masked = mask.mask(id).expect("it fits");
        prop_assert!(width.has(masked));
        prop_assert_eq!(mask.unmask(masked), Some(id));
        prop_assert_eq!(mask.unmask(id).and_then(|other| mask.mask(other)), Some(id));
    }

    #[test]
    fn the_bits_are_those_of_the_general_numeral_string(key: Key, width in width(), id: i64) {
        let id = (id.cast_unsigned() >> (64 - width.bits())).cast_signed();
        let bits = (0..width.bits()).rev().map(|bit| (id >> bit & 1) as u16);
        let bits = FlexibleNumeralString::from(bits.collect::<Vec<_>>());
        let ff1 = FF1::<Aes256>::new(&key, 2).expect("a radix");
        let masked = Vec::from(ff1.encrypt(&[], &bits).expect("bits"));
        let masked = masked.iter().fold(0, |number, &bit| number << 1 | i64::from(bit));
        prop_assert_eq!(Mask::new(&key, width).mask(id), Some(masked));
    }

    #[test]
    fn what_is_no_number_of_the_width_is_refused(key: Key, width in width(), id: i64) {
        let mask = Mask::new(&key, width);
        let fits = width == Width::Bits64 || id >> width.bits() == 0;
        prop_assert_eq!(mask.mask(id).is_some(), fits);
        prop_assert_eq!(mask.unmask(id).is_some(), fits);
    }

    #[test]
    fn each_key_and_width_is_a_permutation_of_its_own(key: Key, other: Key) {
        let masked = |key, width| {
            let mask = Mask::new(key, width);
            [1, 2, 3].map(|id| mask.mask(id))
        };
        let of_key = masked(&key, Width::Bits64);
        prop_assert_ne!(of_key, masked(&key, Width::Bits63));
        prop_assume!(key != other);
        prop_assert_ne!(of_key, masked(&other, Width::Bits64));
    }
}
