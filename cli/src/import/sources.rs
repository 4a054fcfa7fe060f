//! What the tables of each service mean.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use super::table;
use crate::failure::Failure;

/// How NULL is printed. A text that reads so is not distinguished from it.
const NULL: &str = "NULL";

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
pub fn leaf(files: &[PathBuf]) -> Result<Vec<Tag>, Failure> {
    let mut tags = BTreeMap::new();
    for [name, max_id, step, text] in
        table::read(files, ["biz_tag", "max_id", "step", "description"])?
    {
        let tag = Tag {
            name: name.clone(),
            next_id: number(&max_id, "max_id")?,
            step: number(&step, "step")?,
            description: (text != NULL).then_some(text),
        };
        if let Some(Tag { name, .. }) = tags.insert(name, tag) {
            return Err(Failure::failed(format!(
                "tag \"{name}\" occurs more than once"
            )));
        }
    }
    Ok(tags.into_values().collect())
}

/// TinyID: `max_id` is the last id that is granted. Each of `delta` databases has the ids of
/// one remainder; leaf takes the place of all of them, so all must be there.
pub fn tinyid(files: &[PathBuf]) -> Result<Vec<Tag>, Failure> {
    struct Found {
        tag: Tag,
        delta: i32,
        remainders: Vec<i32>,
    }
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let columns = ["biz_type", "max_id", "step", "delta", "remainder"];
    for [name, max_id, step, delta, remainder] in table::read(files, columns)? {
        let next_id = number::<i64>(&max_id, "max_id")?.checked_add(1);
        let next_id =
            next_id.ok_or_else(|| Failure::failed(format!("tag \"{name}\" has no ids left")))?;
        let step = match step.as_str() {
            NULL => 1,
            step => number::<i32>(step, "step")?.max(1),
        };
        let delta = number(&delta, "delta")?;
        let entry = found.entry(name.clone()).or_insert_with(|| Found {
            tag: Tag {
                name,
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
        entry.remainders.push(number(&remainder, "remainder")?);
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
            .hint("name the files of all databases: leaf grants every id, whatever its remainder")),
        }
    };
    found.into_values().map(complete).collect()
}

/// A ticket table, often on several servers: leaf begins above the ids of all of them.
pub fn tickets(files: &[PathBuf], name: &str, step: i32) -> Result<Tag, Failure> {
    let rows = table::read(files, ["next_id"])?;
    let next_ids: Result<Vec<i64>, _> = rows
        .iter()
        .map(|[next_id]| number(next_id, "next_id"))
        .collect();
    Ok(Tag {
        name: name.to_owned(),
        next_id: next_ids?.into_iter().max().unwrap_or(1),
        step,
        description: None,
    })
}

fn number<T: FromStr>(text: &str, column: &str) -> Result<T, Failure> {
    text.parse()
        .map_err(|_| Failure::failed(format!("invalid value \"{text}\" in column \"{column}\"")))
}
