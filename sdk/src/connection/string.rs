//! Connection strings in both forms of libpq: `key = value` pairs and URIs.

use percent_encoding::percent_decode_str;

use super::bad;
use crate::Error;

/// A keyword and its value.
pub(super) type Pair = (String, String);

/// Whether a text is a connection string and not just the name of a database.
pub(super) fn is_connection_string(text: &str) -> bool {
    after_scheme(text).is_some() || text.contains('=')
}

/// The pairs of a connection string, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<Pair>, Error> {
    match after_scheme(text) {
        Some(uri) => parse_uri(uri),
        None => parse_pairs(text),
    }
}

/// The rest of a URI.
fn after_scheme(text: &str) -> Option<&str> {
    let short = || text.strip_prefix("postgres://");
    text.strip_prefix("postgresql://").or_else(short)
}

/// `host=db1 user = shop password='it\'s'`: white space around the equals sign is optional.
fn parse_pairs(text: &str) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let is_end = |c: char| c == '=' || c.is_whitespace();
        let (key, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        let value = match after.trim_start().strip_prefix('=') {
            Some(value) if !key.is_empty() => value.trim_start(),
            _ => return Err(no_value(key)),
        };
        let (value, after) = match value.strip_prefix('\'') {
            Some(quoted) => match until(quoted, |c| c == '\'') {
                (_, None) => return Err(bad("unterminated quoted string")),
                found => found,
            },
            None => until(value, char::is_whitespace),
        };
        pairs.push((key.to_owned(), value));
        rest = after.unwrap_or_default().trim_start();
    }
    Ok(pairs)
}

/// The text before the first end, and the text after it, if there is one. A backslash stands for
/// the character after it.
pub(super) fn until(text: &str, is_end: impl Fn(char) -> bool) -> (String, Option<&str>) {
    let (mut found, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => found.extend(chars.next()),
            c if is_end(c) => return (found, Some(chars.as_str())),
            c => found.push(c),
        }
    }
    (found, None)
}

/// The part after `postgresql://`: `user:password@host:port,host:port/dbname?key=value`.
fn parse_uri(uri: &str) -> Result<Vec<Pair>, Error> {
    let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
    let (authority, dbname) = address.split_once('/').unwrap_or((address, ""));
    let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (hosts, ports): (Vec<_>, Vec<_>) = hosts.split(',').map(host_and_port).unzip();
    let list = |values: Vec<&str>| match values.iter().all(|value| value.is_empty()) {
        true => String::new(),
        false => values.join(","),
    };
    let (hosts, ports) = (list(hosts), list(ports));
    let mut encoded = vec![
        ("user", user),
        ("password", password),
        ("host", &hosts),
        ("port", &ports),
        ("dbname", dbname),
    ];
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let pair = parameter.split_once('=');
        encoded.push(match pair.ok_or_else(|| no_value(parameter))? {
            ("ssl", "true") => ("sslmode", "require"),
            pair => pair,
        });
    }
    let pairs = encoded.into_iter();
    pairs
        .map(|(key, value)| Ok((decoded(key)?, decoded(value)?)))
        .collect()
}

/// The parts of `host:port` or `[::1]:port`.
fn host_and_port(text: &str) -> (&str, &str) {
    let (host, port) = match text.rfind(':') > text.rfind(']') {
        true => text.rsplit_once(':').unwrap_or_default(),
        false => (text, ""),
    };
    (host.trim_matches(['[', ']']), port)
}

fn decoded(text: &str) -> Result<String, Error> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(bad("the connection string is not percent-encoded UTF-8")),
    }
}

fn no_value(key: &str) -> Error {
    bad(format!(
        "missing \"=\" after \"{key}\" in the connection string"
    ))
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// The pairs that have a value.
    fn pairs(string: &str) -> Vec<String> {
        let pairs = parse(string).expect("a connection string").into_iter();
        let given = pairs.filter(|(_, value)| !value.is_empty());
        given
            .map(|(key, value)| format!("{key}: {value}"))
            .collect()
    }

    #[test]
    fn pairs_are_read_as_libpq_reads_them() {
        assert_eq!(
            pairs(r"host = db1  password='it\'s \\' port= options=-c\ a=b user='' dbname="),
            ["host: db1", r"password: it's \", "port: options=-c a=b"]
        );
        assert!(pairs("  ").is_empty());
        for bad in ["host", "host=a port", "=a", "password='a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn uris_are_read_as_libpq_reads_them() {
        assert_eq!(
            pairs("postgresql://a%40b:p%3aw@db1:1,[::1]:2,db3/shop?sslmode=disable&ssl=true"),
            [
                "user: a@b",
                "password: p:w",
                "host: db1,::1,db3",
                "port: 1,2,",
                "dbname: shop",
                "sslmode: disable",
                "sslmode: require",
            ]
        );
        let no_ports = pairs("postgres://%2Frun%2Fpostgresql,[::1]");
        assert_eq!(no_ports, ["host: /run/postgresql,::1"]);
        assert_eq!(pairs("postgresql:///?user=x"), ["user: x"]);
        assert!(pairs("postgresql://").is_empty());
        for bad in ["postgresql://h?user", "postgresql://%ff"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
