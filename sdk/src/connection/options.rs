//! The options of a connection: from a string, a service file and the environment,
//! in the order of precedence that libpq has.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::{env, fs};

use super::files;
use super::keywords::{KEYWORDS, Meaning};
use super::string::{self, Pair};
use crate::Error;

/// The folder of the system-wide service file, as packages of PostgreSQL have it.
const SYSTEM_FOLDER: &str = "/etc/postgresql-common";

/// The value of each keyword that has one. As in libpq, the empty value is that of a
/// keyword that is not given.
pub(super) struct Options {
    values: HashMap<&'static str, String>,
}

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
        let mut options = Options {
            values: HashMap::new(),
        };
        options.add(pairs, true)?;
        // Services come before the environment, so their own name and file are looked
        // up first.
        for name in ["service", "servicefile"] {
            options.add_variable(name, &variable)?;
        }
        if let Some(service) = options.get("service").map(str::to_owned) {
            let pairs = options.service(&service)?;
            options.add(pairs, false)?;
        }
        for keyword in KEYWORDS {
            options.add_variable(keyword.name, &variable)?;
        }
        Ok(options)
    }

    fn add_variable(
        &mut self,
        name: &'static str,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Result<(), Error> {
        let keyword = KEYWORDS.iter().find(|keyword| keyword.name == name);
        let value = keyword
            .and_then(|keyword| keyword.variable)
            .and_then(variable);
        self.add(value.map(|value| (name.to_owned(), value)), false)
    }

    /// Adds pairs. They replace the options that are there if they are `stronger`.
    fn add(&mut self, pairs: impl IntoIterator<Item = Pair>, stronger: bool) -> Result<(), Error> {
        for (key, value) in pairs {
            let Some(keyword) = KEYWORDS.iter().find(|keyword| keyword.name == key) else {
                return Err(bad(format!("invalid connection option \"{key}\"")));
            };
            if value.is_empty() {
                continue;
            }
            match keyword.meaning {
                Meaning::Unsupported(instead) => {
                    return Err(bad(format!(
                        "the connection option \"{key}\" is not supported; {instead}"
                    )));
                }
                Meaning::Only(possible) if !possible.contains(&value.as_str()) => {
                    return Err(bad(format!(
                        "the value \"{value}\" of the connection option \"{key}\" is not supported"
                    )));
                }
                Meaning::Known | Meaning::Unused | Meaning::Only(_) => {}
            }
            if stronger {
                self.values.insert(keyword.name, value);
            } else {
                self.values.entry(keyword.name).or_insert(value);
            }
        }
        Ok(())
    }

    /// The pairs of a service, from the user's file or the system's.
    fn service(&self, name: &str) -> Result<Vec<Pair>, Error> {
        let own = match self.get("servicefile") {
            Some(file) => Some(PathBuf::from(file)),
            None => env::home_dir().map(|home| home.join(".pg_service.conf")),
        };
        let folder = env::var("PGSYSCONFDIR").unwrap_or_else(|_| SYSTEM_FOLDER.into());
        let system = PathBuf::from(folder).join("pg_service.conf");
        let is_given = self.get("servicefile").is_some();
        for (file, must_exist) in own
            .map(|file| (file, is_given))
            .into_iter()
            .chain([(system, false)])
        {
            let content = match fs::read_to_string(&file) {
                Ok(content) => content,
                Err(_) if !must_exist => continue,
                Err(error) => {
                    return Err(bad(format!(
                        "could not read the service file {}: {error}",
                        file.display()
                    )));
                }
            };
            if let Some(pairs) = files::service(&content, name).map_err(Error::Config)? {
                let is_nested = |(key, _): &Pair| key == "service" || key == "servicefile";
                if pairs.iter().any(is_nested) {
                    return Err(bad(format!(
                        "the service \"{name}\" cannot name another service"
                    )));
                }
                return Ok(pairs);
            }
        }
        Err(bad(format!("definition of service \"{name}\" not found")))
    }

    /// The value of a keyword.
    pub(super) fn get(&self, name: &'static str) -> Option<&str> {
        debug_assert!(KEYWORDS.iter().any(|keyword| keyword.name == name));
        self.values.get(name).map(String::as_str)
    }

    /// The value of a keyword that has a list.
    pub(super) fn list(&self, name: &'static str) -> Vec<&str> {
        let list = self.get(name).map(|list| list.split(',').map(str::trim));
        list.into_iter().flatten().collect()
    }

    /// The value of a keyword that is a number.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Error> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value.trim().parse();
        number.map(Some).map_err(|_| invalid(name, value))
    }

    /// The value of a keyword that is one of a few, `default` if it is not given.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<T, Error> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        let choice = choices.iter().find(|(name, _)| *name == value);
        choice
            .map(|(_, choice)| *choice)
            .ok_or_else(|| invalid(name, value))
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
            ("hots=db", "\"hots\""),
            ("host=db sslpassword=x", "key has no password"),
            ("host=db gssencmode=require", "\"require\""),
            ("host=db replication=database", "\"replication\""),
        ] {
            let error = Options::of_string(text).err().expect("an error");
            assert!(error.to_string().contains(word), "{error}");
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
            _ => None,
        };
        let options = Options::of_params([("port", "2")], variable).expect("options");
        let get = |name| options.get(name);
        assert_eq!(get("port"), Some("2"));
        assert_eq!(get("host"), Some("of_service"));
        assert_eq!(get("user"), Some("of_environment"));

        let whole = [("port", "3"), ("dbname", "postgresql://h:4/d?user=u")];
        let options = Options::of_params(whole, variable).expect("options");
        let get = |name| options.get(name);
        assert_eq!((get("host"), get("port")), (Some("h"), Some("4")));
        assert_eq!((get("dbname"), get("user")), (Some("d"), Some("u")));

        let unknown = format!("service=other servicefile={file}");
        assert!(Options::of_string(&unknown).is_err());
    }
}
