//! The file of tokens: who may draw what.
//!
//! A token is compared as its SHA-256 hash with that of every token in the file, in constant
//! time: how long a comparison takes tells nothing about the tokens.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::{self, Problem};

/// What a request needs the right to.
#[derive(Clone, Copy, Debug)]
pub enum Right<'a> {
    Tag(&'a str),
    /// Snowflake ids, and decoding them.
    Snowflake,
    /// What is at hand, and the metrics.
    Status,
    /// Dropping what is in memory.
    Forget,
}

/// The tokens of a file.
#[derive(Debug)]
pub struct Tokens(Vec<Token>);

#[derive(Debug)]
struct Token {
    /// `None` for callers without a token.
    hash: Option<[u8; 32]>,
    tags: Vec<Pattern>,
    snowflake: bool,
    status: bool,
    forget: bool,
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// For people.
    name: String,
    token: Option<String>,
    sha256: Option<String>,
    #[serde(default)]
    anonymous: bool,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    snowflake: bool,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    forget: bool,
}

impl Tokens {
    /// # Errors
    /// What is wrong with the file, in a line, with a hint.
    pub fn read(path: &Path) -> Result<Tokens, String> {
        let shown = path.display();
        let failed = |error: std::io::Error| {
            format!("could not read the file of tokens \"{shown}\": {error}")
        };
        let mode = fs::metadata(path).map_err(failed)?.mode();
        if mode & 0o007 != 0 {
            return Err(format!(
                "every user of this machine has access to the file of tokens \"{shown}\"; run: chmod o= '{shown}'"
            ));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        Tokens::parse(&text).map_err(|error| format!("in the file of tokens \"{shown}\": {error}"))
    }

    fn parse(text: &str) -> Result<Tokens, String> {
        // The text of the parser's error would show a line of the file.
        let file: File = toml::from_str(text).map_err(|error| {
            let before = error
                .span()
                .map_or("", |span| text.get(..span.start).unwrap_or_default());
            format!(
                "line {}: {}",
                before.matches('\n').count() + 1,
                error.message()
            )
        })?;
        if file.token.is_empty() {
            return Err("there is no token; add [[token]] with name, token and tags".into());
        }
        let mut tokens: Vec<Token> = Vec::with_capacity(file.token.len());
        for entry in file.token {
            let name = entry.name.clone();
            let token = Token::of(entry)?;
            if tokens.iter().any(|other| other.hash == token.hash) {
                return Err(format!(
                    "\"{name}\" has the token of an earlier entry; give one entry all rights"
                ));
            }
            tokens.push(token);
        }
        Ok(Tokens(tokens))
    }

    /// Whether callers without a token have rights.
    pub fn serve_anybody(&self) -> bool {
        self.0.iter().any(|token| token.hash.is_none())
    }

    /// # Errors
    /// [`TOKEN_MISSING`](problem::TOKEN_MISSING), [`TOKEN_UNKNOWN`](problem::TOKEN_UNKNOWN) or
    /// [`TOKEN_FORBIDS`](problem::TOKEN_FORBIDS).
    pub fn check(&self, secret: Option<&[u8]>, right: Right<'_>) -> Result<(), Problem> {
        let presented = secret.map(hash);
        let mut found = None;
        for token in &self.0 {
            let is_same = match (&token.hash, &presented) {
                (Some(known), Some(presented)) => bool::from(known.ct_eq(presented)),
                (None, None) => true,
                _ => false,
            };
            if is_same {
                found = Some(token);
            }
        }
        match found {
            Some(token) if token.allows(right) => Ok(()),
            None if secret.is_some() => Err(problem::TOKEN_UNKNOWN),
            _ if secret.is_none() => Err(problem::TOKEN_MISSING),
            _ => Err(problem::TOKEN_FORBIDS),
        }
    }
}

impl Token {
    fn of(entry: Entry) -> Result<Token, String> {
        let name = &entry.name;
        let hash = match (&entry.token, &entry.sha256, entry.anonymous) {
            (Some(token), None, false) if !token.is_empty() => Some(hash(token.as_bytes())),
            (None, Some(hex), false) => Some(decode(hex).ok_or_else(|| {
                format!("sha256 of \"{name}\" is not a hash of 64 hexadecimal digits")
            })?),
            (None, None, true) => None,
            _ => {
                return Err(format!(
                    "\"{name}\" must have one of: token, sha256, anonymous = true"
                ));
            }
        };
        // Those of a header come without spaces at their ends.
        if entry.token.is_some_and(|token| token.trim_ascii() != token) {
            return Err(format!(
                "the token of \"{name}\" begins or ends with a space; remove it"
            ));
        }
        Ok(Token {
            hash,
            tags: entry.tags.iter().map(|text| Pattern::of(text)).collect(),
            snowflake: entry.snowflake,
            status: entry.status,
            forget: entry.forget,
        })
    }

    fn allows(&self, right: Right<'_>) -> bool {
        match right {
            Right::Tag(tag) => self.tags.iter().any(|pattern| pattern.matches(tag)),
            Right::Snowflake => self.snowflake,
            Right::Status => self.status,
            Right::Forget => self.forget,
        }
    }
}

/// A pattern of names: `*` stands for any characters, `?` for one, and all others for themselves.
#[derive(Debug)]
struct Pattern(Vec<char>);

impl Pattern {
    fn of(text: &str) -> Pattern {
        Pattern(text.chars().collect())
    }

    /// Takes time in proportion to both lengths at most: a mismatch goes back to the last `*` only.
    fn matches(&self, name: &str) -> bool {
        let (pattern, name): (&[char], Vec<char>) = (&self.0, name.chars().collect());
        let (mut at, mut read) = (0, 0);
        let mut last_star = None;
        while read < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    last_star = Some((at, read));
                    at += 1;
                }
                Some(&c) if c == '?' || c == name[read] => (at, read) = (at + 1, read + 1),
                _ => {
                    let Some((star, begin)) = last_star else {
                        return false;
                    };
                    last_star = Some((star, begin + 1));
                    (at, read) = (star + 1, begin + 1);
                }
            }
        }
        pattern[at..].iter().all(|&c| c == '*')
    }
}

fn hash(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn decode(hex: &str) -> Option<[u8; 32]> {
    hex::decode(hex).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[token]]
        name = "shop"
        token = "secret"
        tags = ["orders", "shop.*"]

        [[token]]
        name = "events"
        # of "other"
        sha256 = "D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA"
        snowflake = true
        status = true
        forget = true
    "#;

    #[test]
    fn token_gives_the_rights_that_the_file_says() {
        let tokens = Tokens::parse(FILE).expect("tokens");
        let check = |secret: &str, right| tokens.check(Some(secret.as_bytes()), right);
        assert_eq!(check("secret", Right::Tag("orders")), Ok(()));
        assert_eq!(check("secret", Right::Tag("shop.items")), Ok(()));
        assert_eq!(
            check("secret", Right::Tag("order")),
            Err(problem::TOKEN_FORBIDS)
        );
        assert_eq!(
            check("secret", Right::Snowflake),
            Err(problem::TOKEN_FORBIDS)
        );
        assert_eq!(check("other", Right::Snowflake), Ok(()));
        assert_eq!(check("other", Right::Status), Ok(()));
        assert_eq!(check("other", Right::Forget), Ok(()));
        assert_eq!(check("secret", Right::Forget), Err(problem::TOKEN_FORBIDS));
        assert_eq!(
            check("other", Right::Tag("orders")),
            Err(problem::TOKEN_FORBIDS)
        );
        assert_eq!(
            check("Secret", Right::Tag("orders")),
            Err(problem::TOKEN_UNKNOWN)
        );
        assert_eq!(
            tokens.check(None, Right::Tag("orders")),
            Err(problem::TOKEN_MISSING)
        );
    }

    #[test]
    fn only_star_and_question_mark_stand_for_other_characters() {
        for (pattern, name) in [
            ("*", ""),
            ("shop.*", "shop."),
            ("*.items", "a.b.items"),
            ("a*b*c", "a-b-b-c"),
            ("? ?", "ä ö"),
            ("日?", "日本"),
            ("x{y}", "x{y}"),
            ("a[b]", "a[b]"),
            ("back\\slash", "back\\slash"),
            ("{a,payroll}", "{a,payroll}"),
        ] {
            assert!(Pattern::of(pattern).matches(name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("?", "ab"),
            ("shop.*", "shop"),
            ("*.items", "items"),
            ("a*b*c", "a-b-c-b"),
            ("x{y}", "xy"),
            ("a[b]", "ab"),
            ("back\\slash", "backslash"),
            ("{a,payroll}", "payroll"),
        ] {
            assert!(!Pattern::of(pattern).matches(name), "{pattern} {name}");
        }
        let stars = format!("{}b", "a*".repeat(64));
        assert!(!Pattern::of(&stars).matches(&"a".repeat(128)));
    }

    #[test]
    fn callers_without_a_token_have_the_rights_of_the_anonymous_entry() {
        let file =
            format!("{FILE}\n[[token]]\nname = \"all\"\nanonymous = true\ntags = [\"public\"]\n");
        let tokens = Tokens::parse(&file).expect("tokens");
        assert_eq!(tokens.check(None, Right::Tag("public")), Ok(()));
        assert_eq!(
            tokens.check(None, Right::Tag("orders")),
            Err(problem::TOKEN_MISSING)
        );
        assert_eq!(
            tokens.check(Some(b""), Right::Tag("public")),
            Err(problem::TOKEN_UNKNOWN)
        );
    }

    #[test]
    fn wrong_file_is_refused_without_showing_a_token() {
        for (wrong, says) in [
            ("", "missing field `token`"),
            ("token = []", "there is no token"),
            ("[[token]]\nname = \"a\"\n", "must have one of"),
            (
                "[[token]]\nname = \"a\"\ntoken = \"\"\n",
                "must have one of",
            ),
            (
                "[[token]]\nname = \"a\"\ntoken = \"hidden\"\nanonymous = true\n",
                "must have one of",
            ),
            (
                "[[token]]\nname = \"a\"\nsha256 = \"hidden\"\n",
                "64 hexadecimal digits",
            ),
            (
                "[[token]]\nname = \"a\"\ntoken = \"hidden \"\n",
                "begins or ends with a space",
            ),
            (
                "[[token]]\nname = \"a\"\ntoken = \"hidden\"\nright = 1\n",
                "line 4",
            ),
            ("[[token]]\nname = \"a\"\ntoken = \"hidden\n", "line 3"),
            (
                "[[token]]\nname = \"a\"\ntoken = \"hidden\"\n[[token]]\nname = \"b\"\ntoken = \"hidden\"\n",
                "\"b\" has the token of an earlier entry",
            ),
        ] {
            let error = Tokens::parse(wrong).expect_err(wrong);
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
