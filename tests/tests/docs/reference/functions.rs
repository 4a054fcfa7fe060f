//! docs/reference/functions.md has every function, with its signature, arguments, result,
//! errors, rights and an example.

use std::collections::{BTreeMap, BTreeSet};

use super::{flat, sentence, written};
use leaf_tests::Server;
use leaf_tests::page::Part;
use leaf_tests::postgres::Client;

const PAGE: &str = "docs/reference/functions.md";

/// Functions that only views and triggers call. Their page says nothing but that.
const INTERNAL: &str = "Internal functions";

/// A function of the extension; one entry for all that have the same name.
#[derive(Default)]
struct Function {
    /// As `CREATE FUNCTION` has it, without the body.
    signatures: Vec<String>,
    /// Of arguments and of the columns of the result.
    names: BTreeSet<String>,
    comments: Vec<String>,
    /// Roles that can execute it; none if all can.
    executed_by: Vec<String>,
}

fn functions(client: &mut Client) -> BTreeMap<String, Function> {
    let rows = client.query(
        "SELECT p.proname::text, p.proname || '(' || pg_get_function_arguments(p.oid) ||
                coalesce(') RETURNS ' || pg_get_function_result(p.oid) || ' ', ') PROCEDURE ') ||
                CASE p.provolatile WHEN 'v' THEN 'VOLATILE' WHEN 's' THEN 'STABLE' ELSE 'IMMUTABLE' END ||
                CASE WHEN p.proisstrict THEN ' STRICT' ELSE '' END ||
                CASE p.proparallel WHEN 's' THEN ' PARALLEL SAFE' WHEN 'r' THEN ' PARALLEL RESTRICTED'
                                   ELSE ' PARALLEL UNSAFE' END,
                coalesce(p.proargnames, '{}'), obj_description(p.oid, 'pg_proc'),
                ARRAY(SELECT DISTINCT CASE grantee WHEN 0 THEN 'public' ELSE grantee::regrole::text END
                        FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))
                       WHERE grantee <> p.proowner ORDER BY 1)
           FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
          WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
            AND p.pronamespace <> 'leaf'::regnamespace
          ORDER BY p.proname, p.pronargs",
        &[],
    );
    let mut found: BTreeMap<String, Function> = BTreeMap::new();
    for row in rows.expect("functions") {
        let function = found.entry(row.get(0)).or_default();
        function.signatures.push(row.get(1));
        function.names.extend(row.get::<_, Vec<String>>(2));
        function.comments.push(row.get(3));
        function.executed_by = row.get(4);
    }
    found
}

/// A signature in lines: arguments, result, and how it can be called.
fn written_as(signature: &str) -> String {
    let Some((called, rest)) = signature.rsplit_once(") RETURNS ") else {
        let (called, _) = signature.rsplit_once(") PROCEDURE ").expect("a procedure");
        return format!("{called})\n    PROCEDURE");
    };
    let at = [" VOLATILE", " STABLE", " IMMUTABLE"];
    let at = at
        .iter()
        .find_map(|word| rest.find(word))
        .expect("a volatility");
    let (result, how) = rest.split_at(at);
    let called = written::wrapped(&format!("{called})"), 110, "        ");
    let result = written::wrapped(&format!("RETURNS {result}"), 106, "        ");
    format!("{called}\n    {result}\n   {how}")
}

/// What a section lacks.
fn lacks(part: &Part, function: &Function) -> Vec<String> {
    let mut lacks = Vec::new();
    let said = flat(&part.text);
    let mut lack = |is_there: bool, what: &str| {
        if !is_there {
            lacks.push(format!("{}: no {what}", part.title));
        }
    };
    for comment in &function.comments {
        lack(said.contains(&sentence(comment)), &sentence(comment));
    }
    let listed: BTreeSet<String> = part.listed().into_iter().collect();
    lack(
        listed == function.names,
        &format!("list of just {:?}, but {listed:?}", function.names),
    );
    lack(said.contains("**Errors.**"), "errors");
    let rights = said.split("**Rights.**").nth(1).unwrap_or_default();
    let (is_for_all, for_monitors) = match function.executed_by.as_slice() {
        [one] if one == "public" => (true, false),
        [one] if one == "pg_monitor" => (false, true),
        _ => (false, false),
    };
    lack(!rights.is_empty(), "rights");
    lack(
        is_for_all != rights.contains("granted EXECUTE"),
        "right to execute",
    );
    lack(
        for_monitors == rights.contains("`pg_monitor`"),
        "right of pg_monitor",
    );
    let example = said.split("```sql").skip(1).any(|it| {
        let code = it.split("```").next().unwrap_or_default();
        code.contains(&format!("{}(", part.title))
            || code.contains(&format!("FUNCTION {}", part.title))
    });
    lack(example, "example");
    lacks
}

#[test]
fn page_has_every_function_as_it_is_and_no_other() {
    let server = Server::start();
    let functions = functions(&mut server.connect());
    assert!(functions.len() > 30);
    let parts = Part::of(PAGE, 3);
    let mut internal = BTreeSet::new();
    if let Some(part) = Part::of(PAGE, 2).iter().find(|it| it.title == INTERNAL) {
        internal.extend(
            part.rows()
                .iter()
                .map(|row| row[0].trim_matches('`').to_owned()),
        );
    }
    let described = parts.iter().map(|part| part.title.clone());
    let described: BTreeSet<String> = described.chain(internal.iter().cloned()).collect();
    assert_eq!(described, functions.keys().cloned().collect());
    let page = written::with_sections(PAGE, |name, text| {
        let old = text
            .strip_prefix("```text\n")
            .and_then(|text| text.split_once("```"));
        let own = old.map_or(text, |(_, own)| own.trim_start());
        let signatures: Vec<_> = functions[name]
            .signatures
            .iter()
            .map(|it| written_as(it))
            .collect();
        format!("```text\n{}\n```\n\n{own}\n", signatures.join("\n"))
    });
    written::is(PAGE, &page);
    let lacks: Vec<_> = parts
        .iter()
        .flat_map(|part| lacks(part, &functions[&part.title]))
        .collect();
    assert!(lacks.is_empty(), "\n{}", lacks.join("\n"));
}

#[test]
fn internal_functions_are_those_that_no_other_role_calls() {
    let server = Server::start();
    let functions = functions(&mut server.connect());
    let described: BTreeSet<_> = Part::of(PAGE, 3)
        .into_iter()
        .map(|part| part.title)
        .collect();
    for (name, _) in functions
        .iter()
        .filter(|(name, _)| !described.contains(*name))
    {
        assert!(
            name.ends_with("_stats") || name.contains("_check") || name.ends_with("_changed"),
            "{name}"
        );
    }
}

#[test]
fn errors_of_functions_are_on_the_page_of_errors() {
    let known: BTreeSet<String> = Part::of("docs/reference/errors.md", 2)
        .iter()
        .filter_map(|part| Some(part.title.split_once(' ')?.0.to_owned()))
        .collect();
    for part in Part::of(PAGE, 3) {
        let errors = part.text.split("**Errors.**").nth(1).unwrap_or_default();
        let errors = errors.split("**Rights.**").next().unwrap_or_default();
        let words = errors.split(|c: char| !c.is_alphanumeric());
        let codes =
            words.filter(|it| it.len() == 5 && it.starts_with(|c: char| c.is_ascii_digit()));
        for code in codes {
            assert!(known.contains(code), "{}: {code}", part.title);
        }
    }
}
