//! The options of a connection: from a string, a service file and the environment, in the
//! order of precedence that libpq has.

use std::collections::BTreeMap;

use super::string::{self, Pair};
use super::{bad, files};
use crate::Error;

/// The value of each keyword that has one.
pub(super) type Options = BTreeMap<String, String>;

/// The keywords whose value is in the environment if nothing else has one: of `sslmode` in
/// `PGSSLMODE`. Those that the driver does not know ask for more security, so that they must not
/// be ignored.
const IN_ENVIRONMENT: &str = "\
    user password passfile dbname host hostaddr port connect_timeout options application_name \
    sslmode sslnegotiation sslrootcert sslcert sslkey channel_binding target_session_attrs \
    load_balance_hosts sslcrl sslcrldir sslcertmode ssl_min_protocol_version gssencmode \
    requirepeer require_auth";

/// Options with the value that applies in any case, which people write nevertheless.
const WITHOUT_EFFECT: [(&str, &str); 8] = [
    ("client_encoding", "UTF8"),
    ("client_encoding", "auto"),
    ("gssencmode", "disable"),
    ("gssencmode", "prefer"),
    ("keepalives_count", "0"),
    ("ssl_min_protocol_version", "TLSv1.2"),
    ("sslcompression", "0"),
    ("sslcompression", "1"),
];

/// The options of a connection string, and of the service that it names.
pub(super) fn of_string(text: &str) -> Result<Options, Error> {
    collect(string::parse(text)?, |_| None)
}

/// The options of these keywords, and of the service and the environment for what they leave
/// out. A `dbname` that is a connection string stands for its options.
pub(super) fn of_params<'a>(
    params: impl IntoIterator<Item = (&'a str, &'a str)>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Options, Error> {
    let mut pairs = Vec::new();
    for (key, value) in params {
        match key == "dbname" && string::is_connection_string(value) {
            true => pairs.extend(string::parse(value)?),
            false => pairs.push((key.to_owned(), value.to_owned())),
        }
    }
    collect(pairs, variable)
}

fn collect(pairs: Vec<Pair>, variable: impl Fn(&str) -> Option<String>) -> Result<Options, Error> {
    let of_variable = |key: &str| {
        let name = match key {
            "dbname" => "PGDATABASE".into(),
            "application_name" => "PGAPPNAME".into(),
            "connect_timeout" => "PGCONNECT_TIMEOUT".into(),
            key => format!("PG{}", key.replace('_', "").to_uppercase()),
        };
        Some((key.to_owned(), variable(&name)?))
    };
    let mut options = Options::new();
    // The last one counts.
    add(&mut options, pairs.into_iter().rev());
    let names = ["service", "servicefile"].into_iter();
    add(&mut options, names.filter_map(of_variable));
    let file = options.remove("servicefile");
    if let Some(service) = options.remove("service") {
        add(&mut options, files::service(&service, file)?);
    }
    let names = IN_ENVIRONMENT.split(' ');
    add(&mut options, names.filter_map(of_variable));
    options.retain(|key, value| {
        let is_same = |(other, one): &(&str, &str)| other == key && one.eq_ignore_ascii_case(value);
        !WITHOUT_EFFECT.iter().any(is_same)
    });
    Ok(options)
}

/// Adds pairs of which there is none yet. As in libpq, the empty value is that of a keyword
/// that is not given.
fn add(options: &mut Options, pairs: impl IntoIterator<Item = Pair>) {
    for (key, value) in pairs {
        if !value.is_empty() {
            options.entry(key).or_insert(value);
        }
    }
}

/// The driver's configuration.
///
/// # Errors
/// The configuration of the driver, or its error about a keyword or value.
pub(super) fn driver(options: &Options) -> Result<tokio_postgres::Config, Error> {
    let mut text = String::new();
    for (key, value) in options {
        if !key.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            return Err(bad(format!("unknown option `{key}`")));
        }
        let key = match key.as_str() {
            "keepalives_count" => "keepalives_retries",
            key => key,
        };
        let value = value.replace('\\', r"\\").replace('\'', r"\'");
        text += &format!("{key}='{value}' ");
    }
    text.parse()
        .map_err(|error: tokio_postgres::Error| bad(crate::cause::text(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_reach_the_driver_as_they_are() {
        let text = r"password='it\'s \\ \' =' options='-c a=b' keepalives_count=3 dbname=d";
        let driver = of_string(text).and_then(|options| driver(&options));
        let driver = driver.expect("a configuration");
        assert_eq!(driver.get_password(), Some(r"it's \ ' =".as_bytes()));
        assert_eq!(driver.get_options(), Some("-c a=b"));
        assert_eq!(driver.get_keepalives_retries(), Some(3));
        for (key, value) in WITHOUT_EFFECT {
            let options = of_string(&format!("{key}={value}")).expect("options");
            assert!(options.is_empty(), "{options:?}");
        }
    }

    #[test]
    fn string_comes_before_the_service_and_the_service_before_the_environment() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("services");
        let content = "[shop]\nhost=of_service\nport=1\ndbname=of_service\n";
        std::fs::write(&file, content).expect("a file");
        let file = file.to_str().expect("a name").to_owned();
        let variable = |name: &str| match name {
            "PGSERVICEFILE" => Some(file.clone()),
            "PGSERVICE" => Some("shop".into()),
            "PGHOST" | "PGUSER" => Some("of_environment".into()),
            "PGTARGETSESSIONATTRS" | "PGCONNECT_TIMEOUT" | "PGDATABASE" => Some("x".into()),
            "PGSSLCRL" => Some("revoked".into()),
            _ => None,
        };
        let options = of_params([("port", "2"), ("user", "")], variable).expect("options");
        assert_eq!(options["port"], "2");
        assert_eq!(options["host"], "of_service");
        assert_eq!(options["dbname"], "of_service");
        assert_eq!(options["user"], "of_environment");
        assert_eq!(options["target_session_attrs"], "x");
        assert_eq!(options["connect_timeout"], "x");
        assert_eq!(options["sslcrl"], "revoked");

        let whole = [("port", "3"), ("dbname", "postgresql://h:4/d?user=u")];
        let options = of_params(whole, variable).expect("options");
        let found = ["host", "port", "dbname", "user"].map(|key| options[key].as_str());
        assert_eq!(found, ["h", "4", "d", "u"]);

        let unknown = format!("service=other servicefile={file}");
        assert!(of_string(&unknown).is_err());
    }

    /// libpq: invalid URI query parameter: "sslmode "
    #[test]
    fn keyword_with_white_space_is_unknown() {
        for uri in [
            "postgresql://h/d?sslmode%20=require",
            "postgresql://h/d?%20sslmode=require",
            "postgresql://h/d?user%3D%27x%27%20sslmode=disable",
        ] {
            let found = of_string(uri).and_then(|options| driver(&options));
            assert!(found.is_err(), "{uri}: {found:?}");
        }
    }

    /// An option that is given comes before the environment, even with the value that applies in
    /// any case.
    #[test]
    fn option_without_effect_overrides_the_environment() {
        let variable = |name: &str| (name == "PGGSSENCMODE").then(|| "require".into());
        let options = of_params([("gssencmode", "disable")], variable).expect("options");
        assert!(options.is_empty(), "{options:?}");
        let twice = of_string("gssencmode=require gssencmode=disable").expect("options");
        assert!(twice.is_empty(), "{twice:?}");
    }

    /// libpq: service file "..." not found
    #[test]
    fn service_file_that_is_named_must_be_there() {
        let error = of_string("service=shop servicefile=/nonexistent/services");
        let error = error.expect_err("none").to_string();
        assert!(error.contains("/nonexistent/services"), "{error}");
    }
}
