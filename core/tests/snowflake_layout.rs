//! Layouts and epochs: what an id is made of, in both directions.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::time::Duration;

use leaf_core::snowflake::scheme::Fields;
use leaf_core::snowflake::{Layout, Scheme};
use leaf_core::time::{SinceEpoch, WallTime};
use proptest::prelude::*;

/// Computed without this crate; shared by all that reads or makes ids.
const VECTORS: &str = include_str!("../vectors/snowflake.csv");

#[derive(Debug)]
struct Vector {
    scheme: Scheme,
    fields: Fields,
    id: i64,
}

fn vectors() -> Vec<Vector> {
    let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let header = lines.next();
    assert_eq!(
        header,
        Some("layout;epoch_us;created_us;worker_id;sequence;id")
    );
    lines.map(vector).collect()
}

fn vector(line: &str) -> Vector {
    let columns: Vec<&str> = line.split(';').collect();
    let [layout, epoch, created_at, worker_id, sequence, id] = columns[..] else {
        panic!("not six columns: {line}");
    };
    Vector {
        scheme: Scheme {
            layout: layout.parse().unwrap(),
            epoch: at(epoch.parse().unwrap()),
        },
        fields: Fields {
            created_at: at(created_at.parse().unwrap()),
            worker_id: worker_id.parse().unwrap(),
            sequence: sequence.parse().unwrap(),
        },
        id: id.parse().unwrap(),
    }
}

fn layout(text: &str) -> Layout {
    text.parse().unwrap()
}

const fn at(unix_us: i64) -> WallTime {
    WallTime::from_unix_us(unix_us)
}

const fn fields(created_at: WallTime, worker_id: u32, sequence: u32) -> Fields {
    Fields {
        created_at,
        worker_id,
        sequence,
    }
}

#[test]
fn every_vectors_id_says_what_the_vector_says() {
    for Vector { scheme, fields, id } in vectors() {
        assert_eq!(scheme.decode(id), Some(fields), "{id} of {scheme:?}");
    }
}

#[test]
fn every_vectors_fields_make_its_id() {
    for Vector { scheme, fields, id } in vectors() {
        assert_eq!(scheme.encode(fields), Some(id), "{fields:?} of {scheme:?}");
    }
}

#[test]
fn every_instant_of_a_tick_makes_the_same_id() {
    for Vector { scheme, fields, id } in vectors() {
        let tick_us = scheme.layout.tick_us() as i64;
        let after = |us| {
            scheme.encode(Fields {
                created_at: fields.created_at.plus_us(us),
                ..fields
            })
        };
        assert_eq!(after(tick_us - 1), Some(id));
        assert_ne!(after(tick_us), Some(id));
    }
}

#[test]
fn the_vectors_reach_the_ends_of_every_field_of_every_layout() {
    let mut by_layout: BTreeMap<String, Vec<Vector>> = BTreeMap::new();
    for vector in vectors() {
        let key = format!(
            "{} {}",
            vector.scheme.layout,
            vector.scheme.layout.tick_us()
        );
        by_layout.entry(key).or_default().push(vector);
    }
    for (named, layout) in Layout::NAMED {
        let key = format!("{named} {}", layout.tick_us());
        assert!(by_layout.contains_key(&key), "no vectors of {named}");
    }
    for tick_us in [1, 10_000, 1_000_000] {
        let is_custom =
            |key: &&String| key.starts_with("custom") && key.ends_with(&format!(" {tick_us}"));
        assert!(by_layout.keys().any(|key| is_custom(&key)), "{tick_us}us");
    }
    for (name, vectors) in by_layout {
        let has = |tick: u64, worker_id: u64, sequence: u64| {
            vectors.iter().any(|vector| {
                let Vector { scheme, fields, .. } = vector;
                let found = (u64::from(fields.worker_id), u64::from(fields.sequence));
                scheme.tick_at(fields.created_at) == tick && found == (worker_id, sequence)
            })
        };
        let layout = vectors[0].scheme.layout;
        let (tick, worker_id) = (layout.ticks() - 1, layout.worker_ids() - 1);
        let sequence = layout.ids_per_tick() - 1;
        assert!(has(0, 0, 0), "{name}: the smallest id");
        assert!(has(1, 0, 0), "{name}: the second tick");
        assert!(has(tick, 0, 0), "{name}: the last tick");
        assert!(has(0, worker_id, 0), "{name}: the last worker id");
        assert!(has(0, 0, sequence), "{name}: the last sequence");
        assert!(has(tick, worker_id, sequence), "{name}: the largest id");
    }
}

#[test]
fn the_named_layouts_are_what_they_are_known_for() {
    // Tick, ticks, worker ids, sequences, and the epoch in milliseconds since 1970.
    let known = [
        ("leaf", 1_000, 1 << 41, 1 << 10, 1 << 12, 1_288_834_974_657),
        (
            "uid",
            1_000_000,
            1 << 28,
            1 << 22,
            1 << 13,
            1_704_067_200_000,
        ),
        (
            "sonyflake",
            10_000,
            1 << 39,
            1 << 16,
            1 << 8,
            1_409_529_600_000,
        ),
        ("js53", 1_000, 1 << 41, 1 << 5, 1 << 7, 1_704_067_200_000),
        ("decimal", 1_000_000, 9_223_372_036, 100, 10_000_000, 0),
        (
            "custom:41,5,7",
            1_000,
            1 << 41,
            1 << 5,
            1 << 7,
            1_288_834_974_657,
        ),
    ];
    let names = Layout::NAMED.iter().map(|(name, _)| *name);
    assert!(
        known
            .iter()
            .map(|it| it.0)
            .eq(names.chain(["custom:41,5,7"]))
    );
    for (name, tick_us, ticks, worker_ids, sequences, epoch_ms) in known {
        let layout = layout(name);
        assert_eq!(layout.tick_us(), tick_us, "{name}");
        assert_eq!(layout.ticks(), ticks, "{name}");
        assert_eq!(layout.worker_ids(), worker_ids, "{name}");
        assert_eq!(layout.ids_per_tick(), sequences, "{name}");
        let epoch = at(epoch_ms * 1_000);
        assert_eq!(Scheme::of(layout), Scheme { layout, epoch }, "{name}");
    }
}

#[test]
fn the_worker_id_can_be_the_lowest_field() {
    let above = Layout::custom(41, 8, 14, 1_000).unwrap();
    assert_eq!(
        (above.pack(5, 3, 7), above.step()),
        ((5 << 22) + (3 << 14) + 7, 1)
    );
    let below = above.worker_lowest();
    assert_eq!(
        (below.pack(5, 3, 7), below.step()),
        ((5 << 22) + (7 << 8) + 3, 256)
    );
    assert_eq!(below.unpack((5 << 22) + (7 << 8) + 3), (5, 3, 7));
    assert_eq!(below.unpack(below.pack(1 << 41, 0, 0)).0, 1 << 41, "no id");
}

#[test]
fn the_largest_js53_id_is_the_largest_integer_javascript_has() {
    let scheme = Scheme::of(Layout::JS53);
    let last = fields(scheme.ends_at().plus_us(-1), 31, 127);
    assert_eq!(scheme.encode(last), Some((1 << 53) - 1));
}

#[test]
fn decimal_ids_read_as_seconds_worker_id_and_sequence() {
    let id = Scheme::of(Layout::DECIMAL).encode(fields(at(1_700_000_000_999_999), 7, 42));
    let digits = ["1700000000", "07", "0000042"].concat();
    assert_eq!(id.map(|id| id.to_string()), Some(digits));
}

#[test]
fn the_first_sequences_of_ticks_spread_over_a_quarter_of_them_up_to_128() {
    for (sequence_bits, spread) in [
        (1, 1),
        (2, 1),
        (3, 2),
        (8, 64),
        (9, 128),
        (12, 128),
        (31, 128),
    ] {
        let layout = Layout::custom(20, 4, sequence_bits, 1_000).unwrap();
        assert_eq!(layout.start_spread(), spread, "{layout}");
    }
    assert_eq!(Layout::DECIMAL.start_spread(), 128);
}

#[test]
fn numbers_that_are_no_ids_say_nothing() {
    for name in ["leaf", "uid", "sonyflake"] {
        let scheme = Scheme::of(layout(name));
        assert!(scheme.decode(i64::MAX).is_some(), "{name} has all bits");
        assert_eq!(scheme.decode(-1), None);
        assert_eq!(scheme.decode(i64::MIN), None);
    }
    let js53 = Scheme::of(Layout::JS53);
    assert_eq!(js53.decode(1 << 53), None);
    assert_eq!(js53.decode(i64::MAX), None);
    let decimal = Scheme::of(Layout::DECIMAL);
    assert_eq!(decimal.decode(9_223_372_036_000_000_000), None);
    assert_eq!(decimal.decode(i64::MAX), None);
}

#[test]
fn fields_out_of_range_make_no_id() {
    let named = Layout::NAMED.iter().map(|(_, layout)| *layout);
    for layout in named.chain([layout("custom:10,0,1,1s")]) {
        let scheme = Scheme::of(layout);
        let (first, end) = (scheme.epoch, scheme.ends_at());
        let last = end.plus_us(-1);
        let worker_id = (scheme.layout.worker_ids() - 1) as u32;
        let sequence = (scheme.layout.ids_per_tick() - 1) as u32;
        assert!(scheme.encode(fields(first, worker_id, sequence)).is_some());
        assert!(scheme.encode(fields(last, worker_id, sequence)).is_some());
        for out_of_range in [
            fields(first.plus_us(-1), 0, 0),
            fields(WallTime::MIN, 0, 0),
            fields(end, 0, 0),
            fields(WallTime::MAX, 0, 0),
            fields(first, worker_id + 1, 0),
            fields(first, 0, sequence + 1),
        ] {
            assert_eq!(
                scheme.encode(out_of_range),
                None,
                "{layout}: {out_of_range:?}"
            );
        }
    }
}

#[test]
fn a_floor_before_the_epoch_is_0() {
    for Vector { scheme, .. } in vectors() {
        assert_eq!(scheme.floor(scheme.epoch), 0);
        assert_eq!(scheme.floor(scheme.epoch.plus_us(-1)), 0);
        assert_eq!(scheme.floor(WallTime::MIN), 0);
    }
}

#[test]
fn a_floor_after_the_end_is_no_id_or_the_largest_number() {
    for Vector { scheme, .. } in vectors() {
        let end = scheme.floor(scheme.ends_at());
        let layout = scheme.layout;
        match i64::try_from(layout.ticks() * layout.worker_ids() * layout.ids_per_tick()) {
            Ok(next) => assert_eq!(end, next, "{scheme:?}"),
            Err(_) => assert_eq!(end, i64::MAX, "{scheme:?}"),
        }
        assert_eq!(scheme.floor(WallTime::MAX), end);
        assert!(scheme.floor(scheme.ends_at().plus_us(-1)) < end);
    }
}

#[test]
fn arithmetic_on_instants_saturates_where_the_epoch_is_extreme() {
    let layout = layout("custom:62,0,1,1us");
    let late = Scheme {
        layout,
        epoch: WallTime::MAX,
    };
    assert_eq!(late.ends_at(), WallTime::MAX);
    assert_eq!(late.since_epoch(WallTime::MIN), SinceEpoch::default());
    let early = Scheme {
        layout,
        epoch: WallTime::MIN,
    };
    let longest = SinceEpoch::from_us(i64::MAX as u64);
    assert_eq!(early.since_epoch(WallTime::MAX), longest);
    assert_eq!(early.floor(WallTime::MAX), i64::MAX);
    assert_eq!(early.instant_of(u64::MAX), at(-1));
}

/// Any layout there is, of bits, in either order.
fn any_layout() -> impl Strategy<Value = Layout> {
    let tick = prop_oneof![
        Just(1),
        Just(1_000),
        Just(10_000),
        Just(1_000_000),
        Just(3_600_000_000),
        1..=3_600_000_000u64
    ];
    (1..=62u32, 0..=31u32, 1..=31u32, tick, any::<bool>()).prop_filter_map(
        "not within 63 bits and 140,000 years",
        |(time, worker, sequence, tick, worker_is_lowest)| {
            let layout = Layout::custom(time, worker, sequence, tick).ok()?;
            Some(match worker_is_lowest {
                true => layout.worker_lowest(),
                false => layout,
            })
        },
    )
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    let named = prop::sample::select(Layout::NAMED).prop_map(|(_, layout)| layout);
    let layout = prop_oneof![1 => named, 3 => any_layout()];
    (layout, -(1i64 << 61)..1 << 61).prop_map(|(layout, epoch_us)| Scheme {
        layout,
        epoch: at(epoch_us),
    })
}

/// A scheme and `N` points of it: tick, worker id and sequence.
fn points<const N: usize>() -> impl Strategy<Value = (Scheme, [(u64, u64, u64); N])> {
    any_scheme().prop_flat_map(|scheme| {
        let layout = scheme.layout;
        // Half of them near each other, so that every field decides now and then.
        let near = |end: u64| prop_oneof![0..end, 0..end.min(3), Just(end - 1)];
        let point = (
            near(layout.ticks()),
            near(layout.worker_ids()),
            near(layout.ids_per_tick()),
        );
        let points = prop::collection::vec(point, N);
        (
            Just(scheme),
            points.prop_map(|points| points.try_into().unwrap()),
        )
    })
}

fn fields_of(scheme: &Scheme, (tick, worker_id, sequence): (u64, u64, u64)) -> Fields {
    let since_epoch = Duration::from_micros(tick * scheme.layout.tick_us());
    fields(
        scheme.epoch + since_epoch,
        worker_id as u32,
        sequence as u32,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_put_into_an_id_is_read_from_it(
        (scheme, [point]) in points(),
        later in 0..3_600_000_000i64,
    ) {
        let fields = fields_of(&scheme, point);
        let later = later % scheme.layout.tick_us() as i64;
        let created_at = fields.created_at.plus_us(later);
        let id = scheme.encode(Fields { created_at, ..fields }).unwrap();
        prop_assert!(id >= 0);
        prop_assert_eq!(scheme.decode(id), Some(fields));
        prop_assert_eq!(scheme.layout.unpack(id as u64), point);
    }

    #[test]
    fn ids_are_in_the_order_of_their_fields((scheme, [a, b]) in points()) {
        let id = |point| scheme.encode(fields_of(&scheme, point)).unwrap();
        let place = |(tick, worker_id, sequence)| match scheme.layout.step() {
            1 => (tick, worker_id, sequence),
            _ => (tick, sequence, worker_id),
        };
        prop_assert_eq!(id(a).cmp(&id(b)), place(a).cmp(&place(b)));
        if a.0 != b.0 || a.1 == b.1 {
            prop_assert_eq!(id(a).cmp(&id(b)), a.cmp(&b), "time decides, and so does one worker id's");
        }
    }

    #[test]
    fn any_number_is_an_id_or_says_nothing(scheme in any_scheme(), number: i64) {
        match scheme.decode(number) {
            Some(fields) => prop_assert_eq!(scheme.encode(fields), Some(number)),
            None => prop_assert!(number < 0 || number >= scheme.floor(scheme.ends_at())),
        }
    }

    #[test]
    fn a_floor_is_the_smallest_id_of_its_tick((scheme, [point]) in points(), later in 0..3_600_000_000i64) {
        let first = fields_of(&scheme, (point.0, 0, 0));
        let later = later % scheme.layout.tick_us() as i64;
        let floor = scheme.floor(first.created_at.plus_us(later));
        prop_assert_eq!(Some(floor), scheme.encode(first));
        prop_assert!(scheme.encode(fields_of(&scheme, point)) >= Some(floor));
        let before = floor.checked_sub(1).and_then(|id| scheme.decode(id));
        prop_assert!(before.is_none_or(|fields| fields.created_at < first.created_at));
    }

    #[test]
    fn a_later_instant_never_has_a_smaller_floor(scheme in any_scheme(), a: i64, b: i64) {
        let (earlier, later) = (at(a.min(b)), at(a.max(b)));
        prop_assert!(0 <= scheme.floor(earlier));
        prop_assert!(scheme.floor(earlier) <= scheme.floor(later));
    }

    #[test]
    fn an_instant_lies_in_its_tick_and_not_after_the_next(
        (scheme, [(tick, ..)]) in points(),
        later in 0..3_600_000_000i64,
    ) {
        let tick_us = scheme.layout.tick_us() as i64;
        let instant = scheme.instant_of(tick).plus_us(later % tick_us);
        prop_assert_eq!(scheme.tick_at(instant), tick);
        let from = scheme.tick_from(instant);
        prop_assert!(scheme.instant_of(from) >= instant);
        prop_assert!(from == 0 || scheme.instant_of(from - 1) < instant);
    }
}
