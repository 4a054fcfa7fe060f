//! What the tables of each service mean.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::dump::Table;
use crate::failure::Failure;

/// A tag to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    /// The first id that is not granted.
    pub next_id: i64,
    pub step: i32,
    pub description: Option<String>,
}

/// Meituan Leaf: `max_id` is the first id that is not granted.
pub fn leaf(tables: &[Table]) -> Result<Vec<Tag>, Failure> {
    let mut tags = BTreeMap::new();
    for table in tables {
        let has_description = table.columns.iter().any(|column| column == "description");
        let description = if has_description {
            "description"
        } else {
            "biz_tag"
        };
        for [name, max_id, step, text] in
            table.select(["biz_tag", "max_id", "step", description])?
        {
            let name = required(name, "biz_tag")?;
            let tag = Tag {
                name: name.to_owned(),
                next_id: number(max_id, "max_id")?,
                step: number(step, "step")?,
                description: text.filter(|_| has_description).map(str::to_owned),
            };
            if tags.insert(name.to_owned(), tag).is_some() {
                return Err(Failure::failed(format!(
                    "tag \"{name}\" occurs more than once"
                )));
            }
        }
    }
    Ok(tags.into_values().collect())
}

/// TinyID: `max_id` is the last id that is granted. Each of `delta` databases has the ids of
/// one remainder; leaf takes the place of all of them, so all must be there.
pub fn tinyid(tables: &[Table]) -> Result<Vec<Tag>, Failure> {
    struct Found {
        tag: Tag,
        delta: i32,
        remainders: Vec<i32>,
    }
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for table in tables {
        let columns = ["biz_type", "max_id", "step", "delta", "remainder"];
        for [name, max_id, step, delta, remainder] in table.select(columns)? {
            let name = required(name, "biz_type")?;
            let last: i64 = number(max_id, "max_id")?;
            let next_id = last.checked_add(1);
            let next_id = next_id
                .ok_or_else(|| Failure::failed(format!("tag \"{name}\" has no ids left")))?;
            let step = step
                .map_or(Ok(1), |step| number(Some(step), "step"))?
                .max(1);
            let delta = number(delta, "delta")?;
            let entry = found.entry(name.to_owned()).or_insert_with(|| Found {
                tag: Tag {
                    name: name.to_owned(),
                    next_id,
                    step,
                    description: None,
                },
                delta,
                remainders: Vec::new(),
            });
            entry.tag.next_id = entry.tag.next_id.max(next_id);
            entry.tag.step = entry.tag.step.max(step);
            entry.delta = entry.delta.max(delta);
            entry.remainders.push(number(remainder, "remainder")?);
        }
    }
    let complete = |found: Found| {
        let (name, delta) = (&found.tag.name, found.delta);
        let mut remainders = found.remainders;
        let count = remainders.len();
        remainders.sort_unstable();
        match remainders.into_iter().eq(0..delta) {
            true => Ok(found.tag),
            false => Err(Failure::failed(format!(
                "the ids of tag \"{name}\" come from {delta} databases, but there are rows of {count}"
            ))
            .hint("name the dumps of all databases: leaf grants every id, whatever its remainder")),
        }
    };
    found.into_values().map(complete).collect()
}

/// A ticket table, often on several servers: leaf begins above the ids of all of them.
pub fn tickets(tables: &[Table], column: &str, name: &str, step: i32) -> Result<Tag, Failure> {
    let mut next_id: i64 = 1;
    for table in tables {
        next_id = next_id.max(table.auto_increment.unwrap_or(1));
        for [id] in table.select([column])? {
            let above = number::<i64>(id, column)?.checked_add(1);
            let above = above.ok_or_else(|| Failure::failed("there are no ids left"))?;
            next_id = next_id.max(above);
        }
    }
    Ok(Tag {
        name: name.to_owned(),
        next_id,
        step,
        description: None,
    })
}

fn required<'a>(value: Option<&'a str>, column: &str) -> Result<&'a str, Failure> {
    value.ok_or_else(|| Failure::failed(format!("column \"{column}\" of a row is NULL")))
}

fn number<T: FromStr>(value: Option<&str>, column: &str) -> Result<T, Failure> {
    let text = required(value, column)?;
    text.parse()
        .map_err(|_| Failure::failed(format!("invalid value \"{text}\" in column \"{column}\"")))
}
