//! Stripes: numbers that several nodes divide among themselves.
//!
//! The number line is cut into blocks of `width` numbers, beginning at 0. Stripe `number`
//! of `count` owns every `count`-th block, so that nodes with different stripes never
//! grant the same number, whether or not they know of each other.
//!
//! Only a grant looks at the stripe: it begins at the first own number from `max_id` on, and
//! ends with the block. So anything may move a row, to any number, and buffers know of no
//! stripes.
//!
//! The arithmetic is that of `i128`, in which nothing here overflows: a number has 64
//! bits, and a width times a count at most 95.

/// A stripe of the number line.
///
/// ```
/// use leaf_core::grant::{OwnNumbers, Stripe};
///
/// let numbers = OwnNumbers::of(Stripe::new(4, 1, 100).unwrap());
/// assert_eq!(numbers.next(1), 100);
/// assert_eq!(numbers.next(200), 500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    count: u32,
    number: u32,
    width: u64,
}

impl Stripe {
    /// The whole number line.
    pub const WHOLE: Stripe = Stripe {
        count: 1,
        number: 0,
        width: 1,
    };

    /// The width of blocks if none is chosen.
    pub const WIDTH: i64 = 1_000_000;

    /// Stripe `number`, from 0, of `count`, with blocks of `width` numbers; `None` if there
    /// is no such stripe, or if `count` blocks are longer than the positive numbers.
    pub fn new(count: i32, number: i32, width: i64) -> Option<Stripe> {
        let is_one = count >= 1
            && (0..count).contains(&number)
            && width >= 1
            && width <= i64::MAX / i64::from(count);
        is_one.then(|| match count {
            1 => Stripe::WHOLE,
            _ => Stripe {
                count: count.unsigned_abs(),
                number: number.unsigned_abs(),
                width: width.unsigned_abs(),
            },
        })
    }

    /// How many stripes there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Which of them this is, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Numbers in a block; `None` if this is the whole number line.
    pub fn width(&self) -> Option<u64> {
        (self.count > 1).then_some(self.width)
    }

    /// How many own numbers lie from 0 up to, but not including, a number; negative below 0.
    fn rank(&self, number: i128) -> i128 {
        if self.count == 1 {
            return number;
        }
        let width = i128::from(self.width);
        let round = width * i128::from(self.count);
        let own = number.rem_euclid(round) - width * i128::from(self.number);
        number.div_euclid(round) * width + own.clamp(0, width)
    }

    /// The own number of a rank.
    fn at(&self, rank: i128) -> i128 {
        if self.count == 1 {
            return rank;
        }
        let width = i128::from(self.width);
        let block = rank.div_euclid(width) * i128::from(self.count) + i128::from(self.number);
        block * width + rank.rem_euclid(width)
    }

    /// One past the last number of the block of a number.
    fn end_of_block(&self, number: i128) -> i128 {
        if self.count == 1 {
            return i128::MAX;
        }
        let width = i128::from(self.width);
        (number.div_euclid(width) + 1) * width
    }
}

/// The numbers that a tag may grant: those of its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnNumbers(Stripe);

impl OwnNumbers {
    /// All numbers.
    pub const ALL: OwnNumbers = OwnNumbers::of(Stripe::WHOLE);

    /// The numbers of a stripe.
    pub const fn of(stripe: Stripe) -> Self {
        OwnNumbers(stripe)
    }

    /// The stripe.
    pub fn stripe(&self) -> &Stripe {
        &self.0
    }

    /// Whether a number is one of these.
    pub fn has(&self, number: i64) -> bool {
        self.next(number) == i128::from(number)
    }

    /// The first of these numbers that is not below `number`; it may be larger than any
    /// `i64`.
    pub fn next(&self, number: i64) -> i128 {
        self.after(number, 0)
    }

    /// The number that comes after `count` of these numbers, counted from `number` on.
    pub fn after(&self, number: i64, count: u64) -> i128 {
        self.0
            .at(self.0.rank(i128::from(number)) + i128::from(count))
    }

    /// How many of these numbers lie from `first` to `last`.
    pub fn count(&self, first: i64, last: i64) -> u64 {
        if last < first {
            return 0;
        }
        let count = self.0.rank(i128::from(last) + 1) - self.0.rank(i128::from(first));
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// One past the last of the consecutive numbers that begin with one of these: where its
    /// block ends.
    pub fn end_of_run(&self, number: i128) -> i128 {
        self.0.end_of_block(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stripe(count: i32, number: i32, width: i64) -> Stripe {
        Stripe::new(count, number, width).expect("a stripe")
    }

    #[test]
    fn every_nth_block_is_own() {
        let numbers = OwnNumbers::of(stripe(4, 1, 10));
        let own: Vec<i64> = (-50..60).filter(|&it| numbers.has(it)).collect();
        let expected: Vec<i64> = (-30..-20).chain(10..20).chain(50..60).collect();
        assert_eq!(own, expected);
        assert_eq!(numbers.next(-20), 10);
        assert_eq!(numbers.end_of_run(-30), -20);
        assert_eq!(numbers.after(15, 5), 50);
        assert_eq!(numbers.count(-50, 59), 30);
    }

    #[test]
    fn a_stripe_that_cannot_be_is_none() {
        for (count, number, width) in [
            (0, 0, 1),
            (-1, 0, 1),
            (4, 4, 1),
            (4, -1, 1),
            (4, 0, 0),
            (2, 0, i64::MAX / 2 + 1),
            (i32::MAX, 0, i64::MAX),
            (i32::MIN, i32::MIN, i64::MIN),
        ] {
            let found = Stripe::new(count, number, width);
            assert_eq!(found, None, "{count} {number} {width}");
        }
        assert_eq!(stripe(1, 0, i64::MAX), Stripe::WHOLE);
        assert!(Stripe::new(i32::MAX, i32::MAX - 1, i64::MAX / i64::from(i32::MAX)).is_some());
    }

    fn any_stripe() -> impl Strategy<Value = Stripe> {
        (1..6_i32, 1..30_i64).prop_flat_map(|(count, width)| {
            (0..count).prop_map(move |number| stripe(count, number, width))
        })
    }

    fn any_numbers() -> impl Strategy<Value = OwnNumbers> {
        any_stripe().prop_map(OwnNumbers::of)
    }

    /// By its definition.
    fn is_own(numbers: &OwnNumbers, number: i64) -> bool {
        let stripe = numbers.stripe();
        stripe.width().is_none_or(|width| {
            let block = number.div_euclid(width as i64);
            block.rem_euclid(i64::from(stripe.count())) == i64::from(stripe.number())
        })
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_the_definition(
            numbers in any_numbers(), first in -400..400_i64, len in 0..400_i64, skipped in 0..100_u64,
        ) {
            let own = |first: i64| (first..).filter(|&it| is_own(&numbers, it));
            let expected = own(first).next().expect("there are more");
            prop_assert_eq!(numbers.next(first), i128::from(expected));
            prop_assert_eq!(numbers.has(first), is_own(&numbers, first));
            let after = own(first).nth(skipped as usize).expect("there are more");
            prop_assert_eq!(numbers.after(first, skipped), i128::from(after));
            let last = first + len - 1;
            let count = (first..=last).filter(|&it| is_own(&numbers, it)).count();
            prop_assert_eq!(numbers.count(first, last), count as u64);
            let end = numbers.end_of_run(i128::from(expected)).min(i128::from(expected) + 500);
            for number in expected..end as i64 {
                prop_assert!(is_own(&numbers, number), "{}", number);
            }
        }

        #[test]
        fn stripes_of_one_cut_divide_all_numbers(
            count in 1..20_i32, width in 1..i64::MAX / 20, number in any::<i64>(),
        ) {
            let owners = (0..count)
                .filter(|&it| OwnNumbers::of(stripe(count, it, width)).has(number));
            prop_assert_eq!(owners.count(), 1);
        }

        #[test]
        fn nothing_overflows_at_the_ends_of_the_number_line(
            count in 1..=i32::MAX, part in 0.0..1.0_f64, share in 0.0..1.0_f64,
            number in prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()], skipped in any::<u64>(),
        ) {
            let width = ((i64::MAX / i64::from(count)) as f64 * share) as i64;
            let width = width.clamp(1, i64::MAX / i64::from(count));
            let own = stripe(count, (f64::from(count) * part) as i32, width);
            let numbers = OwnNumbers::of(own);
            let next = numbers.next(number);
            prop_assert!(next >= i128::from(number));
            prop_assert!(numbers.end_of_run(next) > next);
            prop_assert!(numbers.after(number, skipped) >= next + i128::from(skipped));
            numbers.count(i64::MIN, i64::MAX);
        }
    }
}
