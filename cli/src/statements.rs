//! The statements of a script, as far as leaf's own scripts use SQL.

/// The script of the extension.
pub const EXTENSION: &str =
    include_str!(concat!("../sql/leaf--", env!("CARGO_PKG_VERSION"), ".sql"));

/// The statements of a script, without their semicolons and the comments before them. Commands of psql are
/// left out.
pub fn split(script: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    // Where the text of the statement begins, if it has begun.
    let mut begun = None;
    let mut at = 0;
    while let Some(next) = script[at..].chars().next() {
        let rest = &script[at..];
        match next {
            ';' => statements.push(script[begun.take().unwrap_or(at)..at].trim_end()),
            '\\' if begun.is_none() => {}
            _ if next.is_whitespace() || is_comment(rest) => {}
            _ => begun = begun.or(Some(at)),
        }
        at += token(rest);
    }
    statements
}

fn is_comment(text: &str) -> bool {
    text.starts_with("--") || text.starts_with("/*")
}

/// The length of what a text begins with, in which a semicolon ends nothing.
fn token(text: &str) -> usize {
    let to = |end: &str, from: usize| {
        text[from..]
            .find(end)
            .map_or(text.len(), |at| from + at + end.len())
    };
    if text.starts_with("--") || text.starts_with('\\') {
        return to("\n", 0);
    }
    if text.starts_with("/*") {
        return to("*/", 2);
    }
    match text.chars().next() {
        Some('\'') => to("'", 1),
        Some('"') => to("\"", 1),
        Some('$') => match dollar_quote(text) {
            Some(quote) => to(quote, quote.len()),
            None => 1,
        },
        Some(other) => other.len_utf8(),
        None => 0,
    }
}

/// The quote with which a text begins, such as `$$`; not `$1`.
fn dollar_quote(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 2;
    let is_name = |tag: &str| tag.chars().all(|it| it.is_ascii_lowercase());
    is_name(&text[1..end - 1]).then(|| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn semicolons_in_quotes_and_comments_end_no_statement() {
        let script =
            "\\echo no; \\quit\n-- one; two\nSELECT ';', $1, $a$;$$;$a$;\n/* ; */ SELECT \";\";";
        assert_eq!(
            split(script),
            ["SELECT ';', $1, $a$;$$;$a$", "SELECT \";\""]
        );
    }
}
