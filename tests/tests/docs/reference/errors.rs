//! docs/reference/errors.md has every error that leaf raises, and no other. The errors are
//! read from the sources: each is a call of `Report::new` or `Report::not_ready`, or of `bad` for
//! arguments; in SQL, a message follows its SQLSTATE.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use leaf_tests::page::{Part, root};
use leaf_tests::{Draw, Server};
use syn::visit::{self, Visit};

const PAGE: &str = "docs/reference/errors.md";

/// The condition of a wrong argument.
const BAD_ARGUMENT: &str = "INVALID_PARAMETER_VALUE";

/// The condition of something that has to be different first.
const NOT_READY: &str = "OBJECT_NOT_IN_PREREQUISITE_STATE";

/// Where a message comes from a variable: all arguments' errors go through it.
const OF_ARGUMENTS: &str = "src/error.rs";

/// What the sources raise.
#[derive(Default)]
struct Raised {
    /// The file that is read.
    file: PathBuf,
    /// The conditions that the innermost arm of a `match` names.
    of_arm: Vec<String>,
    /// Condition and message, whose values are `{}`.
    errors: BTreeSet<(String, String)>,
    /// Warnings and notices.
    notes: BTreeSet<String>,
}

impl Raised {
    fn read() -> Raised {
        let mut raised = Raised::default();
        for file in sources(&root().join("src")) {
            let text = fs::read_to_string(&file).expect("a source");
            raised.file = file.strip_prefix(root()).expect("below it").to_owned();
            raised.visit_file(&syn::parse_file(&text).expect("Rust"));
        }
        raised
    }

    fn add(&mut self, code: &syn::Expr, message: &syn::Expr) {
        let Some(message) = literal(message) else {
            assert_eq!(self.file, Path::new(OF_ARGUMENTS), "a computed message");
            return;
        };
        let conditions = match last_name(code).and_then(condition) {
            Some(condition) => vec![condition],
            None => self.of_arm.clone(),
        };
        assert!(!conditions.is_empty(), "the condition of \"{message}\"");
        let found = conditions.into_iter();
        self.errors.extend(found.map(|it| (it, message.clone())));
    }
}

impl<'ast> Visit<'ast> for Raised {
    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let mut conditions = Conditions::default();
        conditions.visit_arm(arm);
        let outer = std::mem::replace(&mut self.of_arm, conditions.0);
        visit::visit_arm(self, arm);
        self.of_arm = outer;
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let args: Vec<_> = call.args.iter().collect();
        match (names(&call.func).as_slice(), args.as_slice()) {
            ([.., kind, new], [code, message, _]) if kind == "Report" && new == "new" => {
                self.add(code, message);
            }
            ([.., kind, not_ready], [message, _])
                if kind == "Report" && not_ready == "not_ready" =>
            {
                let message = literal(message).expect("a message");
                self.errors.insert((NOT_READY.into(), message));
            }
            ([.., bad], [message, _]) if bad == "bad" || bad == "wrong" => {
                let message = literal(message).expect("a message");
                self.errors.insert((BAD_ARGUMENT.into(), message));
            }
            ([.., room, level], [message, ..])
                if room == "report" && (level == "warn" || level == "notice") =>
            {
                self.notes.insert(literal(message).expect("a message"));
            }
            _ => {}
        }
        visit::visit_expr_call(self, call);
    }
}

/// The conditions that are named anywhere.
#[derive(Default)]
struct Conditions(Vec<String>);

impl<'ast> Visit<'ast> for Conditions {
    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        self.0.extend(condition(name.to_string()));
    }
}

/// PostgreSQL's name of a condition.
fn condition(name: String) -> Option<String> {
    let name = name.strip_prefix("ERRCODE_")?;
    let name = name.strip_prefix("T_R_").unwrap_or(name);
    Some(name.strip_prefix("E_R_I_E_").unwrap_or(name).to_owned())
}

/// The names in a path, such as `Report` and `new`.
fn names(path: &syn::Expr) -> Vec<String> {
    let syn::Expr::Path(path) = path else {
        return Vec::new();
    };
    let names = path.path.segments.iter();
    names.map(|it| it.ident.to_string()).collect()
}

fn last_name(path: &syn::Expr) -> Option<String> {
    names(path).pop()
}

/// A literal, or the first argument of `format!`, with `{}` for each value.
fn literal(message: &syn::Expr) -> Option<String> {
    let text = match message {
        syn::Expr::Lit(it) => match &it.lit {
            syn::Lit::Str(text) => text.value(),
            _ => return None,
        },
        syn::Expr::Reference(it) => return literal(&it.expr),
        syn::Expr::Macro(it) if it.mac.path.is_ident("format") => {
            let first = it.mac.tokens.clone().into_iter().next()?;
            let text: syn::LitStr = syn::parse_str(&first.to_string()).ok()?;
            text.value()
        }
        _ => return None,
    };
    Some(without_names(&text))
}

/// The errors of the install script: SQLSTATE and message, with `{}` for each value.
fn errors_of_script() -> BTreeSet<(String, String)> {
    let file = format!("sql/leaf--{}.sql", env!("CARGO_PKG_VERSION"));
    let script = fs::read_to_string(root().join(file)).expect("the script");
    let mut found = BTreeSet::new();
    for (at, _) in script.match_indices("',") {
        let (before, after) = (&script[..at], script[at + 2..].trim_start());
        let code = &before[before.rfind('\'').map_or(at, |it| it + 1)..];
        let is_code = code.len() == 5 && code.starts_with(|it: char| it.is_ascii_digit());
        let message = after.strip_prefix("format(").unwrap_or(after);
        let Some(message) = message.strip_prefix('\'').filter(|_| is_code) else {
            continue;
        };
        let message = message.replace("\'\'", "\u{1}");
        let message = message.split('\'').next().unwrap_or_default();
        let message = message.replace('\u{1}', "'").replace("%s", "{}");
        let message = message.replace("%1$s", "{}").replace("%2$s", "{}");
        found.insert((code.to_owned(), message));
    }
    found
}

/// A message in which each `{name}` is `{}`.
fn without_names(message: &str) -> String {
    let mut parts = message.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.split_once('}').map_or(part, |(_, rest)| rest);
        format!("{text}{{}}{rest}")
    })
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    files
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .collect()
}

/// The message in the first cell of a row.
fn message(row: &[String]) -> String {
    without_names(row[0].trim_matches('`'))
}

#[test]
fn page_has_every_error_of_the_sources_and_no_other() {
    let raised = Raised::read();
    let mut described = BTreeSet::new();
    for part in Part::of(PAGE, 2) {
        let Some((_, condition)) = part.title.split_once(' ') else {
            continue;
        };
        let rows = part.rows();
        described.extend(
            rows.iter()
                .map(|row| (condition.to_uppercase(), message(row))),
        );
    }
    described.retain(|(condition, _)| condition.contains('_'));
    let of_script = errors_of_script();
    assert!(of_script.len() > 20, "{of_script:#?}");
    let conditions = Part::of(PAGE, 2).into_iter().filter_map(|part| {
        let (code, condition) = part.title.split_once(' ')?;
        Some((code.to_owned(), condition.to_uppercase()))
    });
    let conditions: BTreeMap<_, _> = conditions.collect();
    let mut raised = raised;
    raised
        .errors
        .extend(of_script.into_iter().map(|(code, message)| {
            let condition = conditions.get(&code).cloned();
            (condition.unwrap_or(code), message)
        }));
    assert!(raised.errors.len() > 80, "{:#?}", raised.errors);
    let unknown: Vec<_> = described.difference(&raised.errors).collect();
    let missing: Vec<_> = raised.errors.difference(&described).collect();
    assert!(
        unknown.is_empty() && missing.is_empty(),
        "not raised: {unknown:#?}, not described: {missing:#?}"
    );
}

#[test]
fn page_has_every_warning_and_notice() {
    let parts = Part::of(PAGE, 2);
    let part = parts.iter().find(|part| part.title.starts_with("Warnings"));
    let rows = part.expect("a section").rows();
    let described: BTreeSet<_> = rows.iter().map(|row| message(row)).collect();
    assert_eq!(described, Raised::read().notes);
}

#[test]
fn each_condition_has_its_sqlstate() {
    let server = Server::options().bare().start();
    let mut client = server.connect();
    for part in Part::of(PAGE, 2) {
        let Some((sqlstate, condition)) = part.title.split_once(' ') else {
            continue;
        };
        if !condition.contains('_') {
            continue;
        }
        client.run(&format!(
            "DO $$ BEGIN RAISE {condition}; EXCEPTION WHEN OTHERS THEN ASSERT SQLSTATE = '{sqlstate}', SQLSTATE; END $$"
        ));
    }
}
