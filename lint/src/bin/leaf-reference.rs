//! Writes the errors of `docs/reference/errors.md` from the sources: `leaf-reference --write`.
//! Without the argument, it fails if the page is not what it would write.
//!
//! An error is a call of `Report::new`, `Report::not_ready`, `raise_bad` or `bad_argument` in `src`, or an SQLSTATE
//! with a message and a hint in the install script; a warning or notice is a call of
//! `report::warn` or `report::notice`. When it is raised, a comment directly above says, which begins
//! with `When:`; what to do is the hint.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Token};

const PAGE: &str = "docs/reference/errors.md";

/// Before each error of a section.
const HEAD: &str = "\n### ";

/// The section of warnings and notices.
const NOTES: &str = "Warnings and notices";

/// One error of the page.
struct Row {
    message: String,
    when: String,
    hint: String,
}

/// Rows by the condition or SQLSTATE that the title of their section has.
type Rows = BTreeMap<String, Vec<Row>>;

fn main() -> ExitCode {
    let outcome = page().and_then(|page| match std::env::args().nth(1).as_deref() {
        Some("--write") => fs::write(PAGE, page).map_err(|e| e.to_string()),
        _ if fs::read_to_string(PAGE).is_ok_and(|now| now == page) => Ok(()),
        _ => Err(format!("{PAGE} is stale: use make reference")),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The page with new errors.
fn page() -> Result<String, String> {
    let mut rows = Rows::new();
    let files = sources(Path::new("src")).map_err(|e| e.to_string())?;
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let lines = text.lines().collect();
        let mut of_file = OfFile {
            lines,
            rows: &mut rows,
            named: HashMap::new(),
            faults: Vec::new(),
        };
        of_file.visit_file(&parsed);
        if let Some(fault) = of_file.faults.first() {
            return Err(format!("{}: {fault}", file.display()));
        }
    }
    of_script(&mut rows)?;
    let old = fs::read_to_string(PAGE).map_err(|e| e.to_string())?;
    let mut sections = old.split("\n## ");
    let mut page = sections.next().unwrap_or_default().to_owned();
    for section in sections {
        let title = section.lines().next().unwrap_or_default();
        let (code, condition) = title.split_once(' ').unwrap_or((title, ""));
        let mut found = rows.remove(&condition.to_uppercase()).unwrap_or_default();
        found.extend(rows.remove(code).unwrap_or_default());
        found.extend(rows.remove(title).unwrap_or_default());
        if found.is_empty() && code.len() == 5 {
            return Err(format!("nothing is raised of {title}"));
        }
        let above = match (found.is_empty(), section.split_once(HEAD)) {
            (false, Some((above, _))) => above,
            _ => section,
        };
        page += &format!("\n## {}\n{}", above.trim_end(), errors(found, title)?);
    }
    match rows.keys().next() {
        None => Ok(page),
        Some(code) => Err(format!("{PAGE} has no section for {code}")),
    }
}

/// What the page has of errors, in the order of the alphabet; each message once.
fn errors(mut rows: Vec<Row>, title: &str) -> Result<String, String> {
    rows.sort_by(|a, b| a.message.cmp(&b.message));
    let mut lines = String::new();
    let mut seen: Vec<String> = Vec::new();
    let (said, unsaid): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| !row.when.is_empty());
    for row in said {
        let plain = without_names(&row.message);
        if !seen.contains(&plain) {
            let hint = match row.hint.as_str() {
                "" if title == NOTES => "Nothing.".to_owned(),
                "" => return Err(format!("no hint says what to do: {}", row.message)),
                hint => marked(hint),
            };
            _ = write!(
                lines,
                "{HEAD}`{}`\n\n- **When:** {}\n- **What to do:** {hint}\n",
                row.message, row.when
            );
            seen.push(plain);
        }
    }
    if let Some(row) = unsaid
        .iter()
        .find(|row| !seen.contains(&without_names(&row.message)))
    {
        return Err(format!(
            "no comment says when this is raised: {}",
            row.message
        ));
    }
    Ok(lines)
}

/// A hint with marks around names of settings, columns and functions, with their arguments.
fn marked(hint: &str) -> String {
    let is_of_name = |it: char| it.is_alphanumeric() || it == '_' || it == '.';
    let mut marked = String::new();
    let mut rest = hint;
    while let Some(at) = rest.find(|it: char| it.is_alphanumeric() || it == '_') {
        let (before, after) = rest.split_at(at);
        let end = after.find(|it| !is_of_name(it)).unwrap_or(after.len());
        let name = after[..end].trim_end_matches('.');
        let mut len = name.len();
        let is_value = before.ends_with('{');
        let is_name = !is_value && (name.contains('_') || name.starts_with("leaf."));
        if let Some(args) = after[len..].strip_prefix('(').filter(|_| is_name) {
            len += 2 + end_of_call(args);
        }
        marked += before;
        match is_name {
            true => _ = write!(marked, "`{}`", &after[..len]),
            false => marked += &after[..len],
        }
        rest = &after[len..];
    }
    marked + rest
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

/// The calls in a file.
struct OfFile<'a> {
    lines: Vec<&'a str>,
    rows: &'a mut Rows,
    /// Texts that were given a name.
    named: HashMap<String, String>,
    faults: Vec<String>,
}

impl OfFile<'_> {
    fn add(&mut self, code: &str, call: &syn::ExprCall, message: &Expr, hint: Option<&Expr>) {
        // One that is passed on is raised elsewhere.
        let Some(message) = text(message) else {
            return;
        };
        let line = call.func.span().start().line;
        let row = Row {
            message,
            when: when(&self.lines, line - 1, "//"),
            hint: hint
                .and_then(|hint| text(hint).or_else(|| self.text_of_name(hint)))
                .unwrap_or_default(),
        };
        self.rows.entry(code.to_owned()).or_default().push(row);
    }

    fn text_of_name(&self, expr: &Expr) -> Option<String> {
        self.named.get(names(expr).last()?).cloned()
    }
}

impl<'ast> Visit<'ast> for OfFile<'_> {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        let init = local.init.as_ref().and_then(|it| text(&it.expr));
        if let (syn::Pat::Ident(name), Some(text)) = (&local.pat, init) {
            self.named.insert(name.ident.to_string(), text);
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let args: Vec<_> = call.args.iter().collect();
        let called = names(&call.func);
        let called: Vec<_> = called.iter().map(String::as_str).collect();
        match (called.as_slice(), args.as_slice()) {
            ([.., "Report", "new"], [code, message, hint]) => {
                match names(code).last().and_then(|name| condition(name)) {
                    Some(code) => self.add(&code, call, message, Some(hint)),
                    None => self.faults.push("an SQLSTATE has no name".into()),
                }
            }
            ([.., "Report", "not_ready"], [message, hint]) => {
                self.add(
                    "OBJECT_NOT_IN_PREREQUISITE_STATE",
                    call,
                    message,
                    Some(hint),
                );
            }
            ([.., "raise_bad" | "bad_argument"], [message, hint]) => {
                self.add("INVALID_PARAMETER_VALUE", call, message, Some(hint));
            }
            ([.., "report", "warn" | "notice"], [message, rest @ ..]) => {
                self.add(NOTES, call, message, rest.last().copied());
            }
            _ => {}
        }
        visit::visit_expr_call(self, call);
    }
}

/// What the comment directly above a line says after `When:`; the line is counted from 0.
fn when(lines: &[&str], line: usize, mark: &str) -> String {
    let above = lines[..line].iter().rev();
    let comment = above.map_while(|line| line.trim_start().strip_prefix(mark));
    let mut comment: Vec<_> = comment.map(str::trim).collect();
    comment.reverse();
    let text = comment.join(" ");
    let when = text.split_once("When: ").map_or("", |(_, when)| when);
    when.to_owned()
}

/// PostgreSQL's name of a condition.
fn condition(name: &str) -> Option<String> {
    let name = name.strip_prefix("ERRCODE_")?;
    let name = name.strip_prefix("T_R_").unwrap_or(name);
    Some(name.strip_prefix("E_R_I_E_").unwrap_or(name).to_owned())
}

/// The names in a path, such as `Report` and `new`.
fn names(path: &Expr) -> Vec<String> {
    let Expr::Path(path) = path else {
        return Vec::new();
    };
    let names = path.path.segments.iter();
    names.map(|it| it.ident.to_string()).collect()
}

/// A literal, or what `format!` makes, with the names of the values in braces.
fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(it) => match &it.lit {
            syn::Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        Expr::Reference(it) => text(&it.expr),
        Expr::Macro(it) if it.mac.path.is_ident("format") => {
            let parse = Punctuated::<Expr, Token![,]>::parse_terminated;
            let args = it.mac.parse_body_with(parse).ok()?;
            let mut args = args.iter();
            let text = text(args.next()?)?;
            let mut parts = text.split("{}");
            let first = parts.next().unwrap_or_default().to_owned();
            Some(parts.fold(first, |text, part| {
                let name = args.next().map_or_else(String::new, name_of);
                format!("{text}{{{name}}}{part}")
            }))
        }
        _ => None,
    }
}

/// What a value is called.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Path(it) => it.path.segments.last().map(|it| it.ident.to_string()),
        Expr::Field(it) => match &it.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        Expr::Call(it) => it.args.first().map(name_of),
        Expr::MethodCall(it) if it.method == "as_millis" => Some("timeout".into()),
        Expr::MethodCall(it)
            if it.args.is_empty() && it.method != "get" && it.method != "to_bytes" =>
        {
            Some(it.method.to_string())
        }
        Expr::MethodCall(it) => Some(name_of(&it.receiver)),
        Expr::Reference(it) => Some(name_of(&it.expr)),
        _ => None,
    }
    .unwrap_or_else(|| "value".into())
}

/// The errors of the install script.
fn of_script(rows: &mut Rows) -> Result<(), String> {
    let file = format!("sql/leaf--{}.sql", env!("CARGO_PKG_VERSION"));
    let script = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let lines: Vec<_> = script.lines().collect();
    for (at, _) in script
        .match_indices("', ")
        .chain(script.match_indices("',\n"))
    {
        let before = &script[..at];
        let code = &before[before.rfind('\'').map_or(at, |it| it + 1)..];
        let is_code = code.len() == 5 && code.starts_with(|it: char| it.is_ascii_digit());
        if !is_code {
            continue;
        }
        let mut rest = script[at + 2..].trim_start();
        let is_format = rest.starts_with("format(");
        rest = rest.strip_prefix("format(").unwrap_or(rest);
        let Some((message, mut rest)) = sql_literal(rest) else {
            continue;
        };
        let mut values = Vec::new();
        if is_format {
            let end = end_of_call(rest);
            values = rest[..end].split(',').skip(1).map(name_of_value).collect();
            rest = &rest[end + 1..];
        }
        let hint = rest.trim_start_matches([',', ' ', '\n']);
        let hint = hint.strip_prefix("format(").unwrap_or(hint);
        let hint = sql_literal(hint).map(|(hint, _)| hint).unwrap_or_default();
        let row = Row {
            message: with_values(&message, &values),
            when: when(&lines, before.matches('\n').count(), "--"),
            hint: with_values(&hint, &[]),
        };
        rows.entry(code.to_owned()).or_default().push(row);
    }
    Ok(())
}

/// An SQL literal, and what follows.
fn sql_literal(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('\'')?;
    let mut literal = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        literal += part;
        let Some(more) = after.strip_prefix('\'') else {
            return Some((literal, after));
        };
        literal.push('\'');
        rest = more;
    }
}

/// Where the parenthesis closes that was open before the text.
fn end_of_call(text: &str) -> usize {
    let mut depth = 1;
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' if depth == 1 => return at,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len() - 1
}

fn name_of_value(value: &str) -> String {
    let name = match value.trim() {
        "c.full_name" | "$2" => "column",
        "$1" => "table",
        "missing" | "named" => "relation",
        value if value.starts_with("CASE") => "kind",
        value => value.rsplit('.').next().unwrap_or_default(),
    };
    let is_name = !name.is_empty() && name.chars().all(|it| it.is_ascii_lowercase() || it == '_');
    if is_name { name } else { "value" }.to_owned()
}

/// A format of SQL with the names of its values in braces.
fn with_values(text: &str, values: &[String]) -> String {
    let text = text.replace("%1$s", "{table}").replace("%2$s", "{column}");
    let mut values = values.iter();
    let mut parts = text.split("%s");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let name = values.next().map_or("value", String::as_str);
        format!("{text}{{{name}}}{part}")
    })
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(sources(&path)?),
            false if path.extension().is_some_and(|it| it == "rs") => found.push(path),
            false => {}
        }
    }
    found.sort();
    Ok(found)
}
