//! Ids as texts: they come back, sort as the ids do, and a wrong symbol is noticed.
#![cfg(not(loom))]

use leaf_core::id_text::{BadIdText, LENGTH, decode, encode};
use proptest::prelude::*;

/// Computed without this crate; shared by all that reads or makes texts.
const VECTORS: &str = include_str!("../vectors/id_text.csv");

#[test]
fn texts_of_the_vectors_say_what_the_vectors_say() {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines.skip(1) {
        let (id, text) = line.split_once(';').expect("two fields");
        let id = id.parse().expect("a number");
        assert_eq!(encode(id).as_deref(), Some(text), "{line}");
        assert_eq!(decode(text.as_bytes()), Ok(id), "{line}");
        count += 1;
    }
    assert!(count > 20, "only {count} vectors");
}

#[test]
fn what_is_no_text_of_an_id_is_refused_with_the_reason() {
    let refused: [(&[u8], BadIdText); 14] = [
        (b"", BadIdText::Length(0)),
        (b"-", BadIdText::Length(0)),
        (b"0", BadIdText::Length(1)),
        (b"0000000000000", BadIdText::Length(13)),
        (b"000000000000000", BadIdText::Length(15)),
        (b" 0000000000000", BadIdText::Symbol(1)),
        (b"00000000000000\0", BadIdText::Symbol(15)),
        ("0000ж000000000".as_bytes(), BadIdText::Symbol(5)),
        (b"0000\xFF000000000", BadIdText::Symbol(5)),
        // U and the marks are check symbols only.
        (b"U0000000000000", BadIdText::Symbol(1)),
        (b"000000-000000*0", BadIdText::Symbol(14)),
        (b"80000000000006", BadIdText::Range),
        (b"ZZZZZZZZZZZZZ0", BadIdText::Range),
        (b"00000000000001", BadIdText::Check),
    ];
    for (text, why) in refused {
        assert_eq!(decode(text), Err(why), "{}", text.escape_ascii());
    }
}

/// A symbol as a person may write it.
fn as_written(symbol: char, choice: u8) -> String {
    let symbol = match (symbol, choice % 4) {
        ('0', 1) => 'o',
        ('0', 2) => 'O',
        ('1', 1) => 'l',
        ('1', 2) => 'I',
        (symbol, 0) => symbol.to_ascii_lowercase(),
        (symbol, _) => symbol,
    };
    let hyphens = if choice >= 128 { "-" } else { "" };
    format!("{hyphens}{symbol}")
}

fn id() -> impl Strategy<Value = i64> {
    (0..63_u32, any::<i64>()).prop_map(|(shift, id)| (id & i64::MAX) >> shift)
}

proptest! {
    #[test]
    fn a_text_is_read_back_however_it_is_written(id in id(), choices in any::<[u8; LENGTH]>()) {
        let text = encode(id).expect("a text");
        prop_assert_eq!(text.len(), LENGTH);
        let pairs = text.chars().zip(choices);
        let written: String = pairs.map(|(symbol, choice)| as_written(symbol, choice)).collect();
        prop_assert_eq!(decode(written.as_bytes()), Ok(id), "{}", written);
    }

    #[test]
    fn texts_sort_as_the_ids_do(one in id(), other in id()) {
        let texts = [one, other].map(|id| encode(id).expect("a text"));
        prop_assert_eq!(one.cmp(&other), texts[0].cmp(&texts[1]));
        // Also if punctuation does not count.
        let plain = texts.map(|text| text.replace(['*', '~', '$', '='], ""));
        prop_assert_eq!(one.cmp(&other), plain[0].cmp(&plain[1]));
    }

    #[test]
    fn one_wrong_symbol_is_noticed(id in id(), place in 0..LENGTH, other in 0..37_usize) {
        let mut text = encode(id).expect("a text").into_bytes();
        let symbol = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U"[other];
        prop_assume!(text[place] != symbol);
        text[place] = symbol;
        prop_assert!(decode(&text).is_err());
    }

    #[test]
    fn two_swapped_neighbours_are_noticed(id in id(), place in 0..LENGTH - 1) {
        let mut text = encode(id).expect("a text").into_bytes();
        prop_assume!(text[place] != text[place + 1]);
        text.swap(place, place + 1);
        prop_assert!(decode(&text).is_err());
    }

    #[test]
    fn negative_numbers_have_no_text(id in i64::MIN..0) {
        prop_assert_eq!(encode(id), None);
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..30)) {
        if let Ok(id) = decode(&text) {
            prop_assert!(encode(id).is_some());
        }
    }
}
