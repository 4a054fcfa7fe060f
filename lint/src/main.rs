//! Finds circles of imports and arrows that lead up: `leaf-lint src/lib.rs core/src/lib.rs` fails
//! if modules of one of these crates use each other, directly or through other modules, or if one
//! uses a room that stands above its own in the order that the header of `lib.rs` gives (a list
//! after the words "in this order from the top:"; rooms joined by "and" do not use each other).
//!
//! Module A uses module B if A names something that B defines. A re-export (`pub use`)
//! does not count: the name is followed to where it is defined. Code under
//! `#[cfg(test)]` does not count either, and neither do calls of methods, because a
//! caller gets the type from another name.

mod names;
mod rooms;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

fn main() -> ExitCode {
    let mut faults = 0;
    for root in std::env::args().skip(1) {
        match faults_of(Path::new(&root)) {
            Ok(found) => faults += found,
            Err(error) => {
                eprintln!("{root}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    match faults {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Prints the circles and the arrows upward of a crate; returns their number.
fn faults_of(root: &Path) -> Result<usize, String> {
    let tree = tree::Tree::read(root)?;
    let mut arrows: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for (from, module) in tree.modules.iter().enumerate() {
        for path in names::of(module) {
            if let Some(to) = tree.definition(from, &path)
                && to != from
            {
                arrows.entry((from, to)).or_default().push(path.join("::"));
            }
        }
    }
    let graph: DiGraphMap<usize, ()> = arrows.keys().copied().collect();
    let circles: Vec<_> = tarjan_scc(&graph)
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .collect();
    for circle in &circles {
        println!("a circle of {} modules:", circle.len());
        for ((from, to), names) in &arrows {
            if circle.contains(from) && circle.contains(to) {
                let (from, to) = (&tree.modules[*from].file, &tree.modules[*to].file);
                println!(
                    "  {} -> {}: {}",
                    from.display(),
                    to.display(),
                    names.join(", ")
                );
            }
        }
    }
    let mut upward = 0;
    let order = rooms::Order::read(root)?;
    for ((from, to), names) in &arrows {
        let (from, to) = (&tree.modules[*from].file, &tree.modules[*to].file);
        if order.forbids(from, to) {
            let (from, to) = (from.display(), to.display());
            println!("an arrow upward: {from} -> {to}: {}", names.join(", "));
            upward += 1;
        }
    }
    Ok(circles.len() + upward)
}
