//! Measures two things in turn, and summarises the figures.

/// Up to which factor between the highest and the lowest ratio a comparison is steady.
pub const STEADY: f64 = 1.15;

/// How often a comparison is measured that is not steady.
const TRIES: u32 = 2;

/// The median of some figures, and their range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// The spread of at least one figure.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            1 => figures[middle],
            _ => (figures[middle - 1] + figures[middle]) / 2.0,
        };
        Spread {
            median,
            min: figures[0],
            max: figures[figures.len() - 1],
        }
    }

    /// The largest figure divided by the smallest one.
    pub fn width(&self) -> f64 {
        self.max / self.min
    }
}

/// The figures of leaf and of something else, in the same unit.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    pub leaf: Spread,
    pub other: Spread,
    /// leaf's figure divided by the other one, for each pair of runs.
    pub ratio: Spread,
}

impl Comparison {
    /// The comparison of pairs of figures that were measured one after the other.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        Comparison {
            leaf: Spread::of(pairs.iter().map(|pair| pair.0)),
            other: Spread::of(pairs.iter().map(|pair| pair.1)),
            ratio: Spread::of(pairs.iter().map(|pair| pair.0 / pair.1)),
        }
    }
}

/// Runs both once to warm up, then in turn, and again if the ratios vary too much; the steadiest
/// comparison counts. Every second pair runs in reverse order, so that after-effects of one do not
/// always fall on the other.
pub fn in_turn(
    repetitions: u32,
    mut leaf: impl FnMut() -> f64,
    mut other: impl FnMut() -> f64,
) -> Comparison {
    leaf();
    other();
    let mut best = pairs(repetitions, &mut leaf, &mut other);
    for _ in 1..TRIES {
        if best.ratio.width() <= STEADY {
            break;
        }
        let again = pairs(repetitions, &mut leaf, &mut other);
        if again.ratio.width() < best.ratio.width() {
            best = again;
        }
    }
    best
}

fn pairs(
    repetitions: u32,
    leaf: &mut impl FnMut() -> f64,
    other: &mut impl FnMut() -> f64,
) -> Comparison {
    let pairs: Vec<(f64, f64)> = (0..repetitions)
        .map(|repetition| {
            if repetition % 2 == 0 {
                let leaf = leaf();
                (leaf, other())
            } else {
                let other = other();
                (leaf(), other)
            }
        })
        .collect();
    Comparison::of(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.5, 4.0));
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).median, 2.0);
    }

    #[test]
    fn the_ratio_is_taken_pair_by_pair() {
        // In the second run both are ten times slower: the ratio stays the same.
        let comparison = Comparison::of(&[(20.0, 10.0), (2.0, 1.0), (30.0, 10.0)]);
        assert_eq!(comparison.ratio.median, 2.0);
    }

    #[test]
    fn sides_run_in_turn_after_a_warm_up() {
        let order = std::cell::RefCell::new(String::new());
        let run = |name| {
            order.borrow_mut().push(name);
            1.0
        };
        in_turn(3, || run('l'), || run('o'));
        assert_eq!(order.into_inner(), "loloollo");
    }

    #[test]
    fn what_is_not_steady_is_measured_again_and_the_steadiest_counts() {
        // After the warm-up, twice two pairs: 1 and 2, 1 and 1.5.
        let mut figures = [1.0, 1.0, 2.0, 1.0, 1.5].into_iter();
        let comparison = in_turn(2, || figures.next().expect("no further try"), || 1.0);
        assert_eq!((comparison.ratio.min, comparison.ratio.max), (1.0, 1.5));
        assert_eq!(figures.next(), None);
    }
}
