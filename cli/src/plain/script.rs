//! The scripts that install the plain edition and remove it.
//!
//! Tables, signatures, comments and grants are those of the extension's script. Of a function in C,
//! its head is kept: what follows comes from the statement in `sql/plain` that begins with the same
//! text, up to "...".

use std::str::FromStr;

use crate::query::IS_ADMINISTRATOR;
use crate::statements::{CREATE_FUNCTION, EXTENSION, Statement, functions, split};

/// The version that the scripts install.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What comes before the extension's script.
const BEGIN: &str = include_str!("../../sql/plain/begin.sql");

/// What comes after it: functions, and bodies for its functions.
const PLAIN: [&str; 10] = [
    include_str!("../../sql/plain/identity.sql"),
    include_str!("../../sql/plain/readers.sql"),
    include_str!("../../sql/plain/tags.sql"),
    include_str!("../../sql/plain/triggers.sql"),
    include_str!("../../sql/plain/segments.sql"),
    include_str!("../../sql/plain/worker.sql"),
    include_str!("../../sql/plain/masks.sql"),
    include_str!("../../sql/plain/views.sql"),
    include_str!("../../sql/plain/refused.sql"),
    include_str!("../../sql/plain/end.sql"),
];

const UNINSTALL: &str = include_str!("../../sql/plain/uninstall.sql");

/// How the schema that stays when the edition is removed is known.
const LEFT: &str = "empty: leaf was removed";

/// What only an extension can have, or does at another time. The owner of the database can be any role here.
const OF_EXTENSION: [&str; 5] = [
    "leaf_install_schema",
    "GRANT SELECT, INSERT ON leaf.alloc, leaf.worker TO pg_database_owner",
    "pg_extension_config_dump",
    "SELECT leaf.take_back",
    "DROP FUNCTION leaf.take_back",
];

/// A way out that is always there.
const HINT: &str = "HINT 'Move the database to a server with the extension leaf.'";

/// The schema of the functions, quoted.
#[derive(Clone, Debug)]
pub struct Schema(String);

impl FromStr for Schema {
    type Err = String;

    /// As for `CREATE EXTENSION`, the name must not have characters that quote.
    fn from_str(name: &str) -> Result<Self, String> {
        if name.is_empty() || name.contains(['"', '\'', '$', '\\']) {
            return Err(
                "a schema needs a name without quotes, dollar signs and backslashes".into(),
            );
        }
        match name {
            "leaf" => Err("schema leaf has leaf's tables; choose another one".into()),
            _ => Ok(Schema(format!("\"{name}\""))),
        }
    }
}

/// Installs the edition, or replaces its functions if it is installed.
pub fn install(schema: &Schema) -> String {
    let mut script = Script::default();
    for statement in split(BEGIN) {
        script.add(statement.comment, statement.text);
    }
    let plain: Vec<_> = PLAIN.iter().flat_map(|file| split(file)).collect();
    let bodies: Vec<_> = plain.iter().filter_map(Body::of).collect();
    for Statement { comment, text } in split(EXTENSION).into_iter().filter(is_kept) {
        match text.split_once("LANGUAGE c") {
            Some((head, _)) => {
                let (of_body, function) = function(head, &bodies);
                script.add(&format!("{comment}{of_body}"), &function);
            }
            None => script.add(comment, text),
        }
    }
    for statement in plain.iter().filter(|it| Body::of(it).is_none()) {
        // The rights of functions that only this edition has follow the functions.
        script.add_always(statement.comment, statement.text, &["GRANT"]);
    }
    script.end(schema)
}

/// Removes the edition.
pub fn uninstall() -> String {
    filled_in(UNINSTALL)
}

/// A script with the names of the extension's functions filled in, and with what makes an administrator.
fn filled_in(script: &str) -> String {
    let script = script.replace("@functions@", &functions());
    let script = script.replace("@left@", LEFT);
    script.replace("@is_administrator@", IS_ADMINISTRATOR)
}

fn is_kept(statement: &Statement<'_>) -> bool {
    OF_EXTENSION
        .iter()
        .all(|name| !statement.text.contains(name))
}

/// What the plain edition has instead of a function in C.
struct Body<'s> {
    /// With what the function's name and arguments begin, without space.
    opening: String,
    comment: &'s str,
    /// All after the result, or a hint for callers.
    rest: &'s str,
}

impl<'s> Body<'s> {
    fn of(statement: &Statement<'s>) -> Option<Body<'s>> {
        let (opening, rest) = statement.text.split_once("...")?;
        let opening = opening.strip_prefix(CREATE_FUNCTION)?;
        (!opening.contains('\n')).then(|| Body {
            opening: without_space(opening),
            comment: statement.comment,
            rest: rest.trim_start_matches(')').trim_start(),
        })
    }
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The function with this head: with the first body that fits, after its comment.
fn function<'s>(head: &str, bodies: &[Body<'s>]) -> (&'s str, String) {
    let head = head.trim_end();
    let signature = without_space(head.trim_start_matches(CREATE_FUNCTION));
    let body = bodies.iter().find(|it| signature.starts_with(&it.opening));
    let (comment, rest) = body.map_or(("", HINT), |it| (it.comment.trim_start(), it.rest));
    let Some(hint) = rest.strip_prefix("HINT ") else {
        return (comment, format!("{head}\n    {rest}"));
    };
    let name = signature.split('(').next().unwrap_or_default();
    let refusal = format!(
        "{head}\n    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$\nBEGIN\n    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',\n        \
         MESSAGE = '{name} needs the extension leaf',\n        HINT = {hint};\nEND\n$$"
    );
    ("", refusal)
}

/// A script that can be executed again.
#[derive(Default)]
struct Script {
    text: String,
    /// Statements that are executed only where leaf is new.
    once: Vec<String>,
}

impl Script {
    /// Adds a statement: functions, views and comments are written again each time, all else once.
    /// So is what PUBLIC may not do, because a function can be new.
    fn add(&mut self, comment: &str, text: &str) {
        self.add_always(comment, text, &[]);
    }

    /// The same with further statements that are executed each time.
    fn add_always(&mut self, comment: &str, text: &str, others: &[&str]) {
        let always = ["COMMENT", "DO", "REVOKE", "SET", "UPDATE"];
        let is = |word: &&str| text.split_whitespace().next() == Some(*word);
        let created = text
            .strip_prefix("CREATE ")
            .filter(|it| it.starts_with("FUNCTION") || it.starts_with("VIEW"));
        if let Some(created) = created {
            self.write(comment, &format!("CREATE OR REPLACE {created}"));
        } else if always.iter().chain(others).any(is) {
            self.write(comment, text);
        } else {
            self.once.push(format!("{comment}{text}"));
        }
    }

    fn write(&mut self, comment: &str, text: &str) {
        self.write_once();
        self.text += &format!("{comment}{text};\n");
    }

    fn write_once(&mut self) {
        if self.once.is_empty() {
            return;
        }
        self.text += "\nDO $once$\nBEGIN\n    IF NOT pg_catalog.current_setting('leaf_plain.is_new')::boolean THEN\n        RETURN;\n    END IF;\n";
        for statement in self.once.drain(..) {
            self.text += &format!("    EXECUTE $leaf${statement}$leaf$;\n");
        }
        self.text += "END\n$once$;\n";
    }

    fn end(mut self, Schema(schema): &Schema) -> String {
        self.write_once();
        let text = filled_in(self.text.trim_start());
        let text = text.replace("@extschema@", schema);
        text.replace("@version@", VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> (Vec<String>, Vec<Statement<'static>>) {
        let heads = split(EXTENSION).into_iter().filter_map(|it| {
            let (head, _) = it.text.split_once("LANGUAGE c")?;
            Some(without_space(head.trim_start_matches(CREATE_FUNCTION)))
        });
        let plain = PLAIN.iter().flat_map(|file| split(file)).collect();
        (heads.collect(), plain)
    }

    #[test]
    fn each_body_is_that_of_a_function_of_the_extension() {
        let (heads, plain) = parts();
        let bodies: Vec<_> = plain.iter().filter_map(Body::of).collect();
        for head in heads {
            let fits = bodies.iter().filter(|it| head.starts_with(&it.opening));
            assert!(fits.count() <= 1, "{head} has several bodies");
        }
        let (heads, _) = parts();
        for body in bodies {
            let fits = heads.iter().filter(|it| it.starts_with(&body.opening));
            assert_eq!(fits.count(), 1, "{}...", body.opening);
        }
    }

    #[test]
    fn nothing_is_left_of_c_and_of_extensions() {
        let script = install(&"public".parse().expect("a name"));
        for word in [
            "LANGUAGE c",
            "MODULE_PATHNAME",
            "@extschema@",
            "\\echo",
            OF_EXTENSION[0],
            OF_EXTENSION[1],
        ] {
            assert!(!script.contains(word), "{word}");
        }
    }

    #[test]
    fn names_of_schemas_cannot_end_a_quote() {
        assert!("x\"; DROP".parse::<Schema>().is_err());
        assert_eq!(
            "My Schema".parse::<Schema>().expect("a name").0,
            "\"My Schema\""
        );
    }
}
