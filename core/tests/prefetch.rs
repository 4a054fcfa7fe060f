//! After how many ids of a segment the next one is fetched.
#![cfg(not(loom))]

use leaf_core::buffer::prefetch_after;
use proptest::prelude::*;

#[test]
fn bounds_are_kept() {
    for len in [1, 2, 99, 100, 101, 1_000_000, u64::MAX] {
        assert_eq!(prefetch_after(len, 0), 0);
        assert_eq!(prefetch_after(len, 100), len);
        assert_eq!(prefetch_after(len, u64::MAX), len);
    }
    // Of a few ids, the first is soon enough.
    assert_eq!(prefetch_after(9, 10), 0);
    assert_eq!(prefetch_after(10, 10), 1);
}

proptest! {
    #[test]
    fn it_is_the_percentage_rounded_down(len: u64, percent in 0..=100_u64) {
        let exact = u128::from(len) * u128::from(percent) / 100;
        prop_assert_eq!(u128::from(prefetch_after(len, percent)), exact);
    }
}
