//! Connection strings of libpq, as far as leaf has to know them before libpq does.

/// Whether a connection string may contain a password: in its user part, or as an option. Says
/// yes in doubt, for example for a value with the text `password=`.
///
/// ```
/// use leaf_core::conninfo::may_contain_password;
///
/// assert!(may_contain_password("host=a password=secret"));
/// assert!(may_contain_password("postgres://shard:secret@a/db"));
/// assert!(!may_contain_password("host=a,b user=shard passfile=/etc/leaf.pass"));
/// ```
pub fn may_contain_password(conninfo: &str) -> bool {
    let decoded = percent_decoded(conninfo);
    let is_option = decoded
        .match_indices("password")
        .any(|(at, found)| decoded[at + found.len()..].trim_start().starts_with('='));
    is_option || user_part(conninfo).is_some_and(|user| user.contains(':'))
}

/// The part of a URI before the `@`.
fn user_part(conninfo: &str) -> Option<&str> {
    let (_, rest) = conninfo.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user)
}

/// The text with each `%` and two hexadecimal digits replaced by the character with that code,
/// if that is ASCII.
fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..2)
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                decoded.push(char::from(code));
                decoded.push_str(&part[2..]);
            }
            None => {
                decoded.push('%');
                decoded.push_str(part);
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_every_form() {
        for conninfo in [
            "password=x",
            "host=a password = 'x y'",
            "host=a sslpassword=x",
            "postgresql://u:x@a,b/db",
            "postgresql://a/db?password=x",
            "postgresql://a/db?user=u&p%61ssword=x",
            "postgresql://a/db?sslmode=require&%70%61ssword=x",
        ] {
            assert!(may_contain_password(conninfo), "{conninfo}");
        }
    }

    #[test]
    fn what_is_no_password_is_not_taken_for_one() {
        for conninfo in [
            "",
            "host=a port=5432 user=u dbname=d require_auth=password",
            "service=centre",
            "host=::1 passfile=/etc/password",
            "postgresql://u@[::1]:5432,b:5433/db?target_session_attrs=read-write",
            "postgresql:///db?host=%2Ftmp",
            "100%",
        ] {
            assert!(!may_contain_password(conninfo), "{conninfo}");
        }
    }
}
