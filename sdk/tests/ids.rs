//! Ids as text, as JSON, in binary formats, and for the database libraries.

use leaf_sdk::{Id, IdSource, MemorySource, SegmentId, SnowflakeId};
use std::collections::{BTreeSet, HashSet};

leaf_sdk::id_type! {
    /// A type of a program's own.
    pub struct OrderId;
}

#[test]
fn type_of_ones_own_is_drawn_and_is_an_id() {
    let orders = MemorySource::<OrderId>::starting_at(1001);
    let id: OrderId = orders.next().expect("an id");
    assert_eq!(id, OrderId::new(1001));
    assert_eq!(Id::from(id), Id::new(1001));
    assert_eq!((id.to_string().parse(), i64::from(id)), (Ok(id), 1001));
    let text = id.text().expect("a text");
    assert_eq!(text, SegmentId::new(1001).text().expect("a text"));
    assert_eq!(OrderId::from_text(&text), Ok(id));
}

#[test]
fn id_is_written_and_read_as_a_number() {
    for number in [0, 1, 2_123_778_173_958_094_896, i64::MAX] {
        let id = SnowflakeId::new(number);
        assert_eq!(id.to_string(), number.to_string());
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(i64::from(id), number);
    }
    for bad in ["", "x", "1.5", "9223372036854775808"] {
        assert!(bad.parse::<SegmentId>().is_err(), "{bad}");
    }
}

#[test]
fn ids_are_ordered_and_hashed_as_their_numbers() {
    let numbers = [5, 3, 9, 3];
    let ordered: BTreeSet<_> = numbers.map(SegmentId::new).into();
    let in_order: Vec<_> = ordered.into_iter().map(SegmentId::get).collect();
    assert_eq!(in_order, [3, 5, 9]);
    let hashed: HashSet<_> = numbers.map(Id::new).into();
    assert_eq!(hashed.len(), 3);
    assert_eq!(size_of::<SegmentId>(), 8);
}

#[cfg(feature = "serde")]
mod with_serde {
    use super::*;

    #[test]
    fn json_has_strings_and_takes_numbers_too() {
        let id = SnowflakeId::new(2_123_778_173_958_094_896);
        let json = serde_json::to_string(&id).expect("JSON");
        assert_eq!(json, "\"2123778173958094896\"");
        for text in ["\"2123778173958094896\"", "2123778173958094896"] {
            assert_eq!(
                serde_json::from_str::<SnowflakeId>(text).expect("an id"),
                id
            );
        }
        for bad in [
            "\"\"",
            "\"x\"",
            "1.5",
            "null",
            "18446744073709551615",
            "[1]",
        ] {
            assert!(serde_json::from_str::<SnowflakeId>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn binary_formats_have_integers() {
        let id = SegmentId::new(-7);
        let bytes = postcard::to_allocvec(&id).expect("bytes");
        assert_eq!(bytes, postcard::to_allocvec(&-7_i64).expect("bytes"));
        let own = serde_json::to_string(&OrderId::new(7));
        assert_eq!(own.expect("JSON"), "\"7\"");
        assert_eq!(
            postcard::from_bytes::<SegmentId>(&bytes).expect("an id"),
            id
        );
    }
}

#[cfg(feature = "sqlx")]
#[test]
fn sqlx_takes_ids_for_bigints() {
    use sqlx::{Postgres, Type, TypeInfo};
    let info = <SegmentId as Type<Postgres>>::type_info();
    assert_eq!(info.name(), "INT8");
    assert_eq!(<OrderId as Type<Postgres>>::type_info(), info);
    let infos = <Vec<OrderId> as Type<Postgres>>::type_info();
    assert_eq!(infos.name(), "INT8[]");
    let _ = sqlx::query::<Postgres>("SELECT unnest($1)").bind(vec![OrderId::new(1)]);
}

#[cfg(feature = "diesel")]
#[test]
fn diesel_takes_ids_for_bigints() {
    use diesel::prelude::*;
    diesel::table! { orders (id) { id -> BigInt, } }
    let query = orders::table.filter(orders::id.eq(OrderId::new(7)));
    let sql = diesel::debug_query::<diesel::pg::Pg, _>(&query).to_string();
    assert!(sql.contains("$1") && sql.contains('7'), "{sql}");
}
