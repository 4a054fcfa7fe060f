//! What `mysql --batch` and `mariadb --batch` print of a query: a line with the names of the
//! columns, and a line per row, both with tabs between the values. Tabs, line breaks and
//! backslashes within a value are written as `\t`, `\n` and `\\`, and NULL as `NULL`. So no dialect
//! of SQL has to be parsed. Each row says how many there are, which shows what was cut off.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::failure::Failure;

/// The name of the column that says, in each row, how many rows there are.
const TOTAL: &str = "total";

/// Reads the values of these columns from each input, which may have the output of several
/// queries, one after the other.
pub fn read<const N: usize>(
    inputs: &[PathBuf],
    columns: [&str; N],
) -> Result<Vec<[String; N]>, Failure> {
    let mut rows = Vec::new();
    for input in inputs {
        let (name, content) = match input == Path::new("-") {
            true => ("standard input".into(), standard_input()),
            false => (input.display().to_string(), fs::read(input)),
        };
        let read = content
            .map_err(Failure::failed)
            .and_then(|content| rows_of(&content, columns));
        rows.extend(read.map_err(|failure| failure.about(name))?);
    }
    Ok(rows)
}

fn standard_input() -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::stdin().read_to_end(&mut content)?;
    Ok(content)
}

/// The output of a query: where its columns are, and how many of its rows have come.
struct Query<const N: usize> {
    header: String,
    width: usize,
    places: [usize; N],
    total: usize,
    found: usize,
    announced: Option<usize>,
}

fn rows_of<const N: usize>(
    content: &[u8],
    columns: [&str; N],
) -> Result<Vec<[String; N]>, Failure> {
    let text = std::str::from_utf8(content).map_err(|_| {
        Failure::failed("the text is not UTF-8").hint("mysql --default-character-set=utf8mb4")
    })?;
    let Some(text) = text.strip_suffix('\n') else {
        return Err(Failure::failed(match text.is_empty() {
            true => "there are no rows",
            false => "the last line is cut off",
        })
        .hint("run the query again"));
    };
    let mut rows = Vec::new();
    let mut query: Option<Query<N>> = None;
    for (number, line) in (1..).zip(text.split('\n')) {
        let about = |failure: Failure| failure.about(format!("line {number}"));
        match &mut query {
            Some(query) if query.header != line => rows.push(query.row(line).map_err(about)?),
            previous => {
                // The same header once more is that of another database's output.
                previous.take().map_or(Ok(()), Query::end).map_err(about)?;
                query = Some(Query::begin(line, columns).map_err(about)?);
            }
        }
    }
    query.map_or(Ok(()), Query::end)?;
    Ok(rows)
}

impl<const N: usize> Query<N> {
    fn begin(header: &str, columns: [&str; N]) -> Result<Query<N>, Failure> {
        let names: Vec<&str> = header.split('\t').collect();
        let place = |wanted: &str| {
            let place = names.iter().position(|name| *name == wanted);
            place.ok_or_else(|| {
                let missing = Failure::failed(format!("there is no column \"{wanted}\""));
                missing.hint(match wanted {
                    TOTAL => "total is the number of rows, which shows that the file is whole; leafctl import SOURCE --help has the query",
                    _ => "leafctl import SOURCE --help has the query",
                })
            })
        };
        let mut places = [0; N];
        for (found, wanted) in places.iter_mut().zip(columns) {
            *found = place(wanted)?;
        }
        Ok(Query {
            header: header.to_owned(),
            width: names.len(),
            places,
            total: place(TOTAL)?,
            found: 0,
            announced: None,
        })
    }

    fn row(&mut self, line: &str) -> Result<[String; N], Failure> {
        let values: Vec<&str> = line.split('\t').collect();
        if values.len() != self.width {
            let (found, expected) = (values.len(), self.width);
            return Err(Failure::failed(format!(
                "a row has {found} values instead of {expected}"
            )));
        }
        self.found += 1;
        self.announced = values[self.total].parse().ok();
        Ok(self.places.map(|place| unescaped(values[place])))
    }

    /// An error if rows are missing.
    fn end(self) -> Result<(), Failure> {
        match self.announced {
            Some(announced) if announced == self.found => Ok(()),
            _ => {
                let (found, header) = (self.found, self.header.replace('\t', ", "));
                let total = self.announced.unwrap_or_default();
                Err(Failure::failed(format!(
                    "the number of rows of the query ({header}) is {found} instead of {total}"
                ))
                .hint("run the query again"))
            }
        }
    }
}

fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('t') => text.push('\t'),
                Some('n') => text.push('\n'),
                Some('0') => text.push('\0'),
                other => text.extend(other),
            },
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_were_before_they_were_printed() {
        let text = "b\ta\ttotal\nx\\ty\\n\\\\N\t1\t2\nä\rö\tNULL\t2\n";
        let rows = rows_of(text.as_bytes(), ["a", "b"]).ok();
        let expected = [["1", "x\ty\n\\N"], ["NULL", "ä\rö"]];
        assert_eq!(
            rows,
            Some(expected.map(|row| row.map(str::to_owned)).into())
        );
    }

    #[test]
    fn output_without_all_of_its_rows_is_refused() {
        let whole = "a\ttotal\n1\t2\n2\t2\n";
        let count = |text: &str| rows_of(text.as_bytes(), ["a"]).map(|rows| rows.len()).ok();
        assert_eq!(count(whole), Some(2));
        assert_eq!(count(&whole.repeat(2)), Some(4));
        for end in 0..whole.len() {
            assert_eq!(count(&whole[..end]), None, "{end}");
            let first_of_two = whole[..end].to_owned() + whole;
            let is_whole = end == 0;
            assert_eq!(count(&first_of_two).is_some(), is_whole, "{end}");
        }
    }
}
