//! The catalog as rows.

use tokio_postgres::Client;

use super::arguments::List;
use crate::failure::Failure;
use crate::output::{Cell, Column, Rows};
use crate::query;

/// Prints a row per tag.
pub async fn print(client: &Client, args: &List) -> Result<(), Failure> {
    let sql = "SELECT biz_tag::text, owner::text, pg_catalog.array_to_string(grantees, ', '), step, max_step, \
                      max_id, max_value, upstream_tag::text, \
                      CASE WHEN stripes > 1 THEN stripe || ' of ' || stripes END, description \
                 FROM leaf.alloc ORDER BY biz_tag";
    let tags = query::all(client, sql, &[]).await?;
    let columns = [
        "tag",
        "owner",
        "grantees",
        "step",
        "max_step",
        "max_id",
        "max_value",
        "upstream_tag",
        "stripe",
        "description",
    ];
    let columns = columns.map(|name| Column { name, title: name });
    let mut rows = Rows::new(&columns, args.format)?;
    for tag in &tags {
        let text = |n: usize| Cell::or_null(tag.get::<_, Option<String>>(n), Cell::Text);
        let count = |n: usize| {
            Cell::or_null(tag.get::<_, Option<i32>>(n), |number| {
                Cell::Count(number.into())
            })
        };
        rows.push(&[
            text(0),
            text(1),
            text(2),
            count(3),
            count(4),
            Cell::Id(tag.get(5)),
            Cell::Limit(tag.get(6)),
            text(7),
            text(8),
            text(9),
        ])?;
    }
    rows.end()
}
