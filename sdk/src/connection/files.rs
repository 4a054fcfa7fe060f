//! The service file and the password file of libpq.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::string::Pair;

/// The pairs of a service, or `None` if the file has no such service.
pub(super) fn service(content: &str, name: &str) -> Result<Option<Vec<Pair>>, String> {
    let mut found: Option<Vec<Pair>> = None;
    for line in content.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let section = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        match (section, &mut found) {
            // The first section of the name counts.
            (Some(_), Some(_)) => break,
            (Some(section), None) if section == name => found = Some(Vec::new()),
            (Some(_), None) | (None, None) => {}
            (None, Some(pairs)) => match line.split_once('=') {
                Some((key, value)) => pairs.push((key.trim().into(), value.trim().into())),
                None => return Err(format!("syntax error in the service file: \"{line}\"")),
            },
        }
    }
    Ok(found)
}

/// The password of a connection in a password file. As libpq does, it skips a file
/// that is not there, and one that others may read.
pub(super) fn password(file: &Path, connection: [&str; 4]) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
        return None;
    }
    password_in(&fs::read_to_string(file).ok()?, connection)
}

/// `connection` is host, port, database and user.
fn password_in(content: &str, connection: [&str; 4]) -> Option<String> {
    content.lines().find_map(|line| {
        if line.starts_with('#') {
            return None;
        }
        let mut fields = fields(line);
        if fields.len() < 5 {
            return None;
        }
        let matches = |(field, wanted): (&Field, &str)| field.raw == "*" || field.text == wanted;
        let is_it = fields.iter().zip(connection).all(matches);
        is_it.then(|| fields.swap_remove(4).text)
    })
}

/// A field of a line as it is written, and without its backslashes.
#[derive(Default)]
struct Field {
    raw: String,
    text: String,
}

/// The fields of a line, separated by colons.
fn fields(line: &str) -> Vec<Field> {
    let mut fields = vec![Field::default()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = fields.last_mut().expect("there is always a field");
        match c {
            ':' => fields.push(Field::default()),
            '\\' => {
                last.raw.push('\\');
                last.text.extend(chars.next());
            }
            c => {
                last.raw.push(c);
                last.text.push(c);
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_its_section_of_the_file() {
        let content = "# ours\n[a]\nhost=one\n\n[b]\n host = two \nport=5\n[c]\nbroken\n";
        let pairs = |name| service(content, name);
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("a"), Ok(Some(vec![own("host", "one")])));
        let b = vec![own("host", "two"), own("port", "5")];
        assert_eq!(pairs("b"), Ok(Some(b)));
        assert_eq!(pairs("d"), Ok(None));
        assert!(pairs("c").is_err());
    }

    #[test]
    fn password_is_that_of_the_first_line_that_matches() {
        let content = "#h:1:d:u:no\nh:1:d:u:a\\:b\n*:*:d\\:e:*:star\nshort:1\n*:*:*:v:last";
        let of = |connection| password_in(content, connection);
        assert_eq!(of(["h", "1", "d", "u"]).as_deref(), Some("a:b"));
        assert_eq!(of(["x", "2", "d:e", "u"]).as_deref(), Some("star"));
        assert_eq!(of(["x", "2", "d", "v"]).as_deref(), Some("last"));
        assert_eq!(of(["x", "2", "d", "u"]), None);
    }
}
