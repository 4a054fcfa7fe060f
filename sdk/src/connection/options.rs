//! The options of a connection: from a string, a service file and the environment, in the
//! order of precedence that libpq has. The driver's configuration has most of them; what it
//! lacks is kept beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::{env, fs};

use super::files;
use super::string::{self, Pair};
use crate::Error;

/// The folder of the system-wide service file, as packages of PostgreSQL have it.
const SYSTEM_FOLDER: &str = "/etc/postgresql-common";

/// The keywords whose value is in the environment if nothing else has one: of `sslmode` in
/// `PGSSLMODE`.
const IN_ENVIRONMENT: &str = "\
    user password passfile dbname host hostaddr port connect_timeout options application_name \
    sslmode sslnegotiation sslrootcert sslcert sslkey sslcrl sslcrldir sslsni sslcertmode \
    sslcompression ssl_min_protocol_version ssl_max_protocol_version channel_binding \
    target_session_attrs load_balance_hosts client_encoding gssencmode krbsrvname gsslib \
    gssdelegation min_protocol_version max_protocol_version requirepeer require_auth";

/// The keywords that the driver does not know, or for which it has fewer values.
const OWN: &str = "\
    service servicefile passfile fallback_application_name connect_timeout tcp_user_timeout \
    sslmode sslrootcert sslcert sslkey sslcrl sslcrldir sslsni sslcertmode \
    ssl_min_protocol_version ssl_max_protocol_version target_session_attrs";

/// Keywords that are of no importance here, such as those of GSSAPI, with the values that can be
/// obeyed: any, if there is none.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    // Texts are always UTF-8.
    ("client_encoding", "UTF8 utf8 UTF-8 utf-8 auto"),
    ("gssencmode", "disable prefer"),
    ("krbsrvname", ""),
    ("gsslib", ""),
    ("gssdelegation", ""),
    ("sslcompression", ""),
    ("sslcertmode", "disable allow"),
    ("min_protocol_version", "3.0"),
    ("max_protocol_version", "3.0 3.2 latest"),
    ("replication", "false off no 0"),
];

/// The value of each keyword that has one. As in libpq, the empty value is that of a
/// keyword that is not given.
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    /// The options of a connection string, and of the service that it names.
    pub(super) fn of_string(text: &str) -> Result<Options, Error> {
        Options::collect(string::parse(text).map_err(Error::Config)?, |_| None)
    }

    /// The options of these keywords, and of the service and the environment for what
    /// they leave out. Of a keyword that is given twice, the last one counts. A `dbname`
    /// that is a connection string stands for its options.
    pub(super) fn of_params<'a>(
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Options, Error> {
        let mut pairs = Vec::new();
        for (key, value) in params {
            match key == "dbname" && string::is_connection_string(value) {
                true => pairs.extend(string::parse(value).map_err(Error::Config)?),
                false => pairs.push((key.to_owned(), value.to_owned())),
            }
        }
        Options::collect(pairs, variable)
    }

    fn collect(
        pairs: Vec<Pair>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Options, Error> {
        let mut options = Options(BTreeMap::new());
        // The last one counts.
        options.add(pairs.into_iter().rev())?;
        let of_variable = |key: &str| {
            let name = match key {
                "dbname" => "PGDATABASE".into(),
                "application_name" => "PGAPPNAME".into(),
                "connect_timeout" => "PGCONNECT_TIMEOUT".into(),
                key => format!("PG{}", key.replace('_', "").to_uppercase()),
            };
            Some((key.to_owned(), variable(&name)?))
        };
        // Services come before the environment, so their own name and file are looked
        // up first.
        options.add(
            ["service", "servicefile"]
                .into_iter()
                .filter_map(of_variable),
        )?;
        if let Some(service) = options.get("service").map(str::to_owned) {
            options.add(options.service(&service)?)?;
        }
        options.add(IN_ENVIRONMENT.split(' ').filter_map(of_variable))?;
        Ok(options)
    }

    /// Adds pairs of which there is none yet.
    fn add(&mut self, pairs: impl IntoIterator<Item = Pair>) -> Result<(), Error> {
        for (key, value) in pairs {
            if value.is_empty() {
                continue;
            }
            let possible = WITHOUT_EFFECT.iter().find(|(name, _)| *name == key);
            let possible = possible.map_or("", |(_, possible)| possible);
            if !possible.is_empty() && !possible.split(' ').any(|one| one == value) {
                return Err(bad(format!(
                    "the value \"{value}\" of the connection option \"{key}\" is not supported"
                )));
            }
            self.0.entry(key).or_insert(value);
        }
        Ok(())
    }

    /// The pairs of a service, from the user's file or the system's.
    fn service(&self, name: &str) -> Result<Vec<Pair>, Error> {
        let given = self.get("servicefile").map(PathBuf::from);
        let must_exist = given.is_some();
        let own = given.or_else(|| env::home_dir().map(|home| home.join(".pg_service.conf")));
        let folder = env::var("PGSYSCONFDIR").unwrap_or_else(|_| SYSTEM_FOLDER.into());
        let system = PathBuf::from(folder).join("pg_service.conf");
        for (place, file) in own.into_iter().chain([system]).enumerate() {
            let content = match fs::read_to_string(&file) {
                Ok(content) => content,
                Err(_) if place > 0 || !must_exist => continue,
                Err(error) => {
                    let file = file.display();
                    return Err(bad(format!(
                        "could not read the service file {file}: {error}"
                    )));
                }
            };
            if let Some(pairs) = files::service(&content, name).map_err(Error::Config)? {
                if pairs.iter().any(|(key, _)| key.starts_with("service")) {
                    let text = format!("the service \"{name}\" cannot name another service");
                    return Err(bad(text));
                }
                return Ok(pairs);
            }
        }
        Err(bad(format!("definition of service \"{name}\" not found")))
    }

    /// The driver's configuration, which has all that is not our own.
    ///
    /// # Errors
    /// What the driver says of a keyword that it does not know, or of its value.
    pub(super) fn driver(&self) -> Result<tokio_postgres::Config, Error> {
        let is_own = |key: &str| {
            OWN.split(' ').any(|own| own == key)
                || WITHOUT_EFFECT.iter().any(|(name, _)| *name == key)
        };
        let mut text = String::new();
        for (key, value) in &self.0 {
            let key = match key.as_str() {
                key if is_own(key) => continue,
                "keepalives_count" if value == "0" => continue,
                "keepalives_count" => "keepalives_retries",
                key => key,
            };
            let value = value.replace('\\', r"\\").replace('\'', r"\'");
            text += &format!("{key}='{value}' ");
        }
        text.parse()
            .map_err(|error: tokio_postgres::Error| bad(crate::cause::text(&error)))
    }

    /// The value of a keyword.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of a keyword that is a number.
    pub(super) fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.trim().parse();
        number.map(Some).map_err(|_| invalid(key, value))
    }

    /// The value of a keyword that is one of a few, `default` if it is not given.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<T, Error> {
        let Some(value) = self.get(key) else {
            return Ok(default);
        };
        let choice = choices.iter().find(|(name, _)| *name == value);
        choice
            .map(|(_, choice)| *choice)
            .ok_or_else(|| invalid(key, value))
    }
}

/// The error for a value that its keyword cannot have.
pub(super) fn invalid(name: &str, value: &str) -> Error {
    bad(format!(
        "invalid value \"{value}\" for the connection option \"{name}\""
    ))
}

pub(super) fn bad(message: String) -> Error {
    Error::Config(message)
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn empty_value_is_that_of_an_option_that_is_not_given() {
        let options = Options::of_string("host='' port= sslmode=''").expect("options");
        assert_eq!(options.get("host"), None);
        assert_eq!(options.get("sslmode"), None);
    }

    #[test]
    fn unknown_and_unsupported_options_are_named() {
        for (text, word) in [
            ("hots=db", "hots"),
            ("host=db sslpassword=x", "sslpassword"),
            ("host=db requirepeer=x", "requirepeer"),
            ("host=db gssencmode=require", "\"require\""),
            ("host=db replication=database", "\"replication\""),
        ] {
            let driver = Options::of_string(text).and_then(|options| options.driver());
            let error = driver.expect_err("an error").to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn values_reach_the_driver_as_they_are() {
        let text = r"password='it\'s \\ \' =' options='-c a=b' keepalives_count=3 dbname=d";
        let driver = Options::of_string(text).and_then(|options| options.driver());
        let driver = driver.expect("a configuration");
        assert_eq!(driver.get_password(), Some(r"it's \ ' =".as_bytes()));
        assert_eq!(driver.get_options(), Some("-c a=b"));
        assert_eq!(driver.get_keepalives_retries(), Some(3));
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
            _ => None,
        };
        let options = Options::of_params([("port", "2")], variable).expect("options");
        let get = |name| options.get(name);
        assert_eq!(get("port"), Some("2"));
        assert_eq!(get("host"), Some("of_service"));
        assert_eq!(get("dbname"), Some("of_service"));
        assert_eq!(get("user"), Some("of_environment"));
        assert_eq!(get("target_session_attrs"), Some("x"));
        assert_eq!(get("connect_timeout"), Some("x"));

        let whole = [("port", "3"), ("dbname", "postgresql://h:4/d?user=u")];
        let options = Options::of_params(whole, variable).expect("options");
        let get = |name| options.get(name);
        assert_eq!((get("host"), get("port")), (Some("h"), Some("4")));
        assert_eq!((get("dbname"), get("user")), (Some("d"), Some("u")));

        let unknown = format!("service=other servicefile={file}");
        assert!(Options::of_string(&unknown).is_err());
    }
}
