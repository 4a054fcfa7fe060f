//! Layouts as text: which are accepted, and how they are shown.
#![cfg(not(loom))]

use leaf_core::snowflake::Layout;
use proptest::prelude::*;

#[test]
fn a_layouts_text_is_read_back() {
    let texts = [
        (" leaf\n", "leaf"),
        ("custom:41,10,12", "custom:41,10,12,1ms"),
        ("custom:41,10,12,1ms", "custom:41,10,12,1ms"),
        ("custom:39,8,16,10ms", "custom:39,8,16,10ms"),
        ("custom:32,17,14,1s", "custom:32,17,14,1s"),
        ("custom:23,9,1,7us", "custom:23,9,1,7us"),
        ("custom:37,0,7,250 ms", "custom:37,0,7,250ms"),
        (" custom: 41 , 10 , 12 , 10 ms ", "custom:41,10,12,10ms"),
        ("custom:30,1,1,3600s", "custom:30,1,1,3600s"),
    ];
    let named = Layout::NAMED.iter().map(|(name, _)| (*name, *name));
    for (text, shown) in named.chain(texts) {
        let layout = text.parse::<Layout>().unwrap();
        assert_eq!(layout.to_string(), shown);
        assert_eq!(shown.parse(), Ok(layout));
    }
}

#[test]
fn a_text_that_is_no_layout_is_refused_with_the_reason() {
    let named: Vec<_> = Layout::NAMED.iter().map(|(name, _)| *name).collect();
    let forms = format!("\"\" is not {}, or custom:", named.join(", "));
    let refused = [
        ("", &*forms),
        ("Leaf", "\"Leaf\" is not leaf"),
        ("snowflake", "is not leaf"),
        ("custom", "is not leaf"),
        ("custom:", "not three numbers of bits"),
        ("custom:41,10", "\"41,10\" is not three numbers of bits"),
        ("custom:41,10,12,1ms,", "not three numbers of bits"),
        ("custom:41,ten,12", "\"ten\" is not a number of bits"),
        ("custom:41,,12", "\"\" is not a number of bits"),
        ("custom:41,-1,12", "\"-1\" is not a number of bits"),
        ("custom:41.0,10,12", "not a number of bits"),
        ("custom:4294967296,10,12", "not a number of bits"),
        ("custom:41,10,12,", "\"\" is not the length of a tick"),
        ("custom:41,10,12,10", "\"10\" is not the length of a tick"),
        ("custom:41,10,12,ms", "not the length of a tick"),
        ("custom:41,10,12,1m", "not the length of a tick"),
        ("custom:41,10,12,1.5ms", "not the length of a tick"),
        ("custom:41,10,12,-1ms", "not the length of a tick"),
        ("custom:1,1,1,18446744073710s", "not the length of a tick"),
        ("custom:0,10,12", "time and sequence need at least 1 bit"),
        ("custom:41,10,0", "time and sequence need at least 1 bit"),
        ("custom:20,32,10", "at most 31 bits each"),
        ("custom:20,10,32", "at most 31 bits each"),
        ("custom:41,11,12", "63 bits for all three fields together"),
        ("custom:63,0,1,1us", "63 bits for all three fields together"),
        ("custom:4294967295,31,31", "63 bits for all three fields"),
        ("custom:41,10,12,0ms", "at least 1us and at most 1h"),
        ("custom:20,10,12,3601s", "at least 1us and at most 1h"),
        (
            "custom:20,10,12,3600000001us",
            "at least 1us and at most 1h",
        ),
        ("custom:53,1,1", "further than 140,000 years"),
        ("custom:31,10,12,3600s", "further than 140,000 years"),
    ];
    for (text, reason) in refused {
        let error = text.parse::<Layout>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn the_largest_layouts_of_each_rule_are_accepted() {
    for text in [
        "custom:1,31,31",
        "custom:41,10,12",
        "custom:62,0,1,1us",
        "custom:52,0,1,1ms",
        "custom:30,2,31,3600s",
    ] {
        assert!(text.parse::<Layout>().is_ok(), "{text}");
    }
}

fn any_custom_layout() -> impl Strategy<Value = Layout> {
    (1..=62u32, 0..=31u32, 1..=31u32, 1..=3_600_000_000u64).prop_filter_map(
        "not within 63 bits and 140,000 years",
        |(time, worker, sequence, tick)| Layout::custom(time, worker, sequence, tick).ok(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_custom_layouts_text_is_read_back(layout in any_custom_layout()) {
        prop_assert_eq!(layout.to_string().parse(), Ok(layout));
    }

    #[test]
    fn a_layout_is_accepted_if_its_fields_fit_and_its_time_ends(
        time in 0..=70u32,
        worker in 0..=40u32,
        sequence in 0..=40u32,
        tick_us in prop_oneof![0..3u64, 0..4_000_000_000u64],
    ) {
        let fits = (1..=62).contains(&time)
            && worker <= 31
            && (1..=31).contains(&sequence)
            && time + worker + sequence <= 63
            && (1..=3_600_000_000).contains(&tick_us)
            && (tick_us as f64) * 2f64.powi(time as i32) <= 2f64.powi(62);
        prop_assert_eq!(Layout::custom(time, worker, sequence, tick_us).is_ok(), fits);
    }
}
