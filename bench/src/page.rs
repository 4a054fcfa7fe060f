//! The tables of docs/comparison.md, whose figures are those of the file of results.

use std::collections::HashMap;
use std::slice;

use crate::compare::STEADY;
use crate::works::WORST;

/// A page with the figures of the results in each row that names what was measured.
pub fn refreshed(page: &str, results: &str) -> String {
    let measured: HashMap<Vec<String>, Vec<String>> = results
        .lines()
        .map(cells)
        .filter_map(|cells| match cells.as_slice() {
            [call, _, median, _, _, longest] if call.starts_with(WORST) => {
                Some((vec![call.clone()], vec![median.clone(), longest.clone()]))
            }
            [work, against, leaf, other, ratio, ..] => {
                let figures = vec![leaf.clone(), other.clone(), shown(ratio)?];
                Some((vec![work.clone(), against.clone()], figures))
            }
            [what, figure] => Some((vec![what.clone()], vec![figure.clone()])),
            _ => None,
        })
        .collect();
    let figure_of = |name: &str, sessions: &str| {
        let what = format!("ids per second, {sessions}: {}", name.replace('`', ""));
        measured.get(&vec![what]).map(|figures| figures[0].clone())
    };
    let worst = |name: &str| measured.get(&vec![format!("{WORST}{name}")]);
    let row = |line: &str| {
        let cells = cells(line);
        let figures = match cells.as_slice() {
            [work, against, _, _, _] => measured
                .get(&cells[..2])
                .map(|figures| [&[work.clone(), against.clone()], figures.as_slice()].concat()),
            [name, _, _] => figure_of(name, "1 session")
                .zip(figure_of(name, "8 sessions"))
                .map(|(one, eight)| vec![name.clone(), one, eight])
                .or_else(|| Some([slice::from_ref(name), worst(name)?.as_slice()].concat())),
            _ => None,
        };
        figures.map_or(line.to_owned(), |row| format!("| {} |", row.join(" | ")))
    };
    page.lines().map(|line| row(line) + "\n").collect()
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<String> {
    let inner = line.strip_prefix('|').and_then(|it| it.strip_suffix('|'));
    let cells = inner.map(|inner| inner.split('|').map(|cell| cell.trim().to_owned()));
    cells.map_or(Vec::new(), Iterator::collect)
}

/// The median of a ratio such as `1.02 (0.99–1.05)`, with the range if that is wide.
fn shown(ratio: &str) -> Option<String> {
    let (median, range) = ratio.split_once(" (")?;
    let (lowest, highest) = range.trim_end_matches(')').split_once('–')?;
    let [lowest, highest] = [lowest, highest].map(str::parse::<f64>);
    Some(match highest.ok()? <= STEADY * lowest.ok()? {
        true => median.to_owned(),
        false => ratio.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_name_what_was_measured_get_its_figures() {
        let results = "\
            | work | against | leaf | other | ratio | bound | met? |\n\
            | rows | `nextval` | 2 M/s | 1 M/s | 2.00 (1.95–2.05) | ≥ 1.00 | yes |\n\
            | other rows | `nextval` | 2 M/s | 1 M/s | 2.00 (0.50–2.50) | | |\n\
            | worst case: a checkpoint | 5 k/s | 1 ms | 2 ms | 3 ms | 4 ms |\n\
            | ids per second, 1 session: uuidv7 | 3 M/s |\n\
            | ids per second, 8 sessions: uuidv7 | 4 M/s |\n";
        let page = "\
            text | with a line\n\
            | rows | `nextval` | 0 | 0 | 0 |\n\
            | other rows | `nextval` | 0 | 0 | 0 |\n\
            | `uuidv7` | 0 | 0 |\n\
            | a checkpoint | 0 | 0 |\n\
            | if | then |\n";
        let expected = "\
            text | with a line\n\
            | rows | `nextval` | 2 M/s | 1 M/s | 2.00 |\n\
            | other rows | `nextval` | 2 M/s | 1 M/s | 2.00 (0.50–2.50) |\n\
            | `uuidv7` | 3 M/s | 4 M/s |\n\
            | a checkpoint | 1 ms | 4 ms |\n\
            | if | then |\n";
        assert_eq!(refreshed(page, results), expected);
    }
}
