//! Connection strings in both forms of libpq: `key = value` pairs and URIs.

use std::iter::Peekable;
use std::str::Chars;

use percent_encoding::percent_decode_str;

/// A keyword and its value.
pub(super) type Pair = (String, String);

/// How a connection string begins that is a URI.
const PREFIXES: [&str; 2] = ["postgresql://", "postgres://"];

/// Whether a text is a connection string and not just the name of a database.
pub(super) fn is_connection_string(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.starts_with(prefix)) || text.contains('=')
}

/// The pairs of a connection string, in its order.
pub(super) fn parse(string: &str) -> Result<Vec<Pair>, String> {
    match PREFIXES
        .iter()
        .find_map(|prefix| string.strip_prefix(prefix))
    {
        Some(uri) => parse_uri(uri),
        None => parse_pairs(string),
    }
}

/// `host=db1 user = shop password='it''s'`: white space around the equals sign is
/// optional, and a backslash stands for the next character.
fn parse_pairs(string: &str) -> Result<Vec<Pair>, String> {
    let mut chars = string.chars().peekable();
    let mut pairs = Vec::new();
    loop {
        skip_space(&mut chars);
        let mut key = String::new();
        while let Some(c) = chars.next_if(|c| *c != '=' && !c.is_whitespace()) {
            key.push(c);
        }
        skip_space(&mut chars);
        match chars.next() {
            None if key.is_empty() => return Ok(pairs),
            Some('=') if !key.is_empty() => {}
            _ => {
                return Err(format!(
                    "missing \"=\" after \"{key}\" in the connection string"
                ));
            }
        }
        skip_space(&mut chars);
        let value = match chars.next_if_eq(&'\'') {
            Some(_) => quoted(&mut chars)?,
            None => unquoted(&mut chars),
        };
        pairs.push((key, value));
    }
}

fn skip_space(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
}

fn quoted(chars: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let mut value = String::new();
    loop {
        match chars.next() {
            Some('\'') => return Ok(value),
            Some('\\') => value.extend(chars.next()),
            Some(c) => value.push(c),
            None => return Err("unterminated quoted string in the connection string".into()),
        }
    }
}

fn unquoted(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut value = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
        match c {
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    value
}

/// What follows `postgresql://`: `user:password@host:port,host:port/dbname?key=value`.
fn parse_uri(uri: &str) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    let mut push = |key: &str, value: &str| -> Result<(), String> {
        if !value.is_empty() {
            pairs.push((key.to_owned(), decode(value)?));
        }
        Ok(())
    };
    let (uri, parameters) = match uri.split_once('?') {
        Some((uri, parameters)) => (uri, Some(parameters)),
        None => (uri, None),
    };
    let (authority, dbname) = uri.split_once('/').unwrap_or((uri, ""));
    let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    push("user", user)?;
    push("password", password)?;
    let hosts: Vec<_> = hosts
        .split(',')
        .map(host_and_port)
        .collect::<Result<_, _>>()?;
    let join = |part: fn(&(String, String)) -> &str| {
        let parts: Vec<_> = hosts.iter().map(part).collect();
        parts.join(",")
    };
    if hosts.iter().any(|(host, _)| !host.is_empty()) {
        push("host", &join(|(host, _)| host))?;
    }
    if hosts.iter().any(|(_, port)| !port.is_empty()) {
        push("port", &join(|(_, port)| port))?;
    }
    push("dbname", dbname)?;
    for parameter in parameters.into_iter().flat_map(|all| all.split('&')) {
        let Some((key, value)) = parameter.split_once('=') else {
            return Err(format!(
                "missing \"=\" after \"{parameter}\" in the connection string"
            ));
        };
        let (key, value) = (decode(key)?, decode(value)?);
        match (key.as_str(), value.as_str()) {
            ("ssl", "true") => pairs.push(("sslmode".into(), "require".into())),
            _ => pairs.push((key, value)),
        }
    }
    Ok(pairs)
}

/// The parts of `host:port` or `[::1]:port`, still encoded.
fn host_and_port(text: &str) -> Result<(String, String), String> {
    let Some(literal) = text.strip_prefix('[') else {
        let (host, port) = text.split_once(':').unwrap_or((text, ""));
        return Ok((host.to_owned(), port.to_owned()));
    };
    let bad = || format!("invalid host \"{text}\" in the connection string");
    let (host, rest) = literal.split_once(']').ok_or_else(bad)?;
    let port = match rest {
        "" => "",
        rest => rest.strip_prefix(':').ok_or_else(bad)?,
    };
    Ok((host.to_owned(), port.to_owned()))
}

fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| format!("\"{text}\" is not percent-encoded UTF-8"))?;
    match decoded.contains('\0') {
        true => Err("the connection string contains %00".into()),
        false => Ok(decoded.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn pairs(string: &str) -> Vec<(String, String)> {
        parse(string).expect("a connection string")
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn pairs_are_read_as_libpq_reads_them() {
        assert_eq!(
            pairs(r"host = db1  password='it\'s \\' port= options=-c\ a=b"),
            owned(&[
                ("host", "db1"),
                ("password", r"it's \"),
                ("port", "options=-c a=b"),
            ])
        );
        assert_eq!(
            pairs("port='' host=''"),
            owned(&[("port", ""), ("host", "")])
        );
        assert_eq!(pairs("user="), owned(&[("user", "")]));
        assert_eq!(pairs("  "), owned(&[]));
        for bad in ["host", "host=a port", "=a", "password='a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn uris_are_read_as_libpq_reads_them() {
        assert_eq!(
            pairs("postgresql://a%40b:p%3aw@db1:1,[::1]:2,db3/shop?sslmode=disable&ssl=true"),
            owned(&[
                ("user", "a@b"),
                ("password", "p:w"),
                ("host", "db1,::1,db3"),
                ("port", "1,2,"),
                ("dbname", "shop"),
                ("sslmode", "disable"),
                ("sslmode", "require"),
            ])
        );
        assert_eq!(
            pairs("postgres://%2Frun%2Fpostgresql"),
            owned(&[("host", "/run/postgresql")])
        );
        assert_eq!(pairs("postgresql:///?user=x"), owned(&[("user", "x")]));
        assert_eq!(pairs("postgresql://"), owned(&[]));
        for bad in [
            "postgresql://[::1/x",
            "postgresql://[::1]x",
            "postgresql://h?user",
            "postgresql://%ff",
            "postgresql://%00",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
