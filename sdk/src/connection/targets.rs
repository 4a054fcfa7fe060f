//! The hosts to try, and the driver's configuration for all of them.
//!
//! The library tries one host at a time: the driver limits the time of the TCP connection only, and
//! would wait for ever for a host that accepts it and then says nothing.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt};

use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode as DriverMode, TargetSessionAttrs};

use super::options::{self, Options};
use super::ssl_mode::SslMode;
use super::{bad, files};
use crate::Error;

/// How long to wait for each host if the options do not say it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const APPLICATION_NAME: &str = "leaf-sdk";

/// The hosts to try, in turn, and how to connect to them.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    /// Its hosts and ports are those of the targets.
    pub(crate) driver: tokio_postgres::Config,
    pub(crate) hosts: Vec<Target>,
    /// For each host, `None` without limit.
    pub(crate) connect_timeout: Option<Duration>,
    /// The value of `target_session_attrs`.
    pub(crate) needs: Needs,
    pub(super) ssl_mode: SslMode,
    /// The files that the options name: `passfile`, `sslrootcert`, `sslcert` and `sslkey`.
    pub(super) files: Options,
}

/// A host to try.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
}

/// Which servers will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    Any,
    /// One that is no standby, as all have to be that provide ids.
    Primary,
    /// One whose transactions are not read-only by default either.
    Writes,
}

impl Target {
    pub(crate) fn is_on_network(&self) -> bool {
        self.address.is_some() || matches!(self.host, Host::Tcp(_))
    }

    /// The same host at one of its addresses.
    pub(crate) fn at(&self, address: IpAddr) -> Target {
        Target {
            address: Some(address),
            ..self.clone()
        }
    }

    /// The name of the host, or the folder of its socket.
    pub(crate) fn name(&self) -> String {
        match &self.host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.port)
    }
}

impl Targets {
    /// From a connection string.
    pub(crate) fn of_string(text: &str) -> Result<Targets, Error> {
        Targets::of_options(options::of_string(text)?)
    }

    /// From keywords and their values, and from environment variables.
    pub(crate) fn of_params<'a>(
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Targets, Error> {
        let variable = |name: &str| env::var(name).ok();
        Targets::of_options(options::of_params(params, variable)?)
    }

    /// From the driver's configuration.
    pub(crate) fn of_driver(mut driver: tokio_postgres::Config) -> Result<Targets, Error> {
        if driver.get_application_name().is_none() {
            driver.application_name(APPLICATION_NAME);
        }
        if let (None, Ok(name)) = (driver.get_user(), whoami::username()) {
            driver.user(name);
        }
        Ok(Targets {
            hosts: paired(&driver)?,
            connect_timeout: Some(*driver.get_connect_timeout().unwrap_or(&CONNECT_TIMEOUT)),
            needs: match driver.get_target_session_attrs() {
                TargetSessionAttrs::ReadWrite => Needs::Writes,
                TargetSessionAttrs::ReadOnly => return Err(no_ids("read-only")),
                _ => Needs::Any,
            },
            ssl_mode: match driver.get_ssl_mode() {
                DriverMode::Disable => SslMode::Disable,
                DriverMode::Require => SslMode::Require,
                _ => SslMode::Prefer,
            },
            driver,
            files: Options::new(),
        })
    }

    /// The options that the driver lacks, or has fewer values for, are taken out.
    fn of_options(mut options: Options) -> Result<Targets, Error> {
        let needs = match options.remove("target_session_attrs").as_deref() {
            None | Some("any") => Needs::Any,
            Some("primary") => Needs::Primary,
            Some("read-write") => Needs::Writes,
            Some(other) => return Err(no_ids(other)),
        };
        let mode = options.remove("sslmode");
        let mut files = Options::new();
        for key in ["passfile", "sslrootcert", "sslcert", "sslkey"] {
            files.extend(options.remove_entry(key));
        }
        let roots = files.get("sslrootcert").map(String::as_str);
        // A timeout of 0 is without limit then.
        let timeout = options.entry("connect_timeout".into());
        timeout.or_insert_with(|| CONNECT_TIMEOUT.as_secs().to_string());
        let mut driver = options::driver(&options)?;
        // The driver takes milliseconds for seconds.
        if let Some(ms) = driver.get_tcp_user_timeout().map(Duration::as_secs) {
            driver.tcp_user_timeout(Duration::from_millis(ms));
        }
        Ok(Targets {
            connect_timeout: driver.get_connect_timeout().copied(),
            needs,
            ssl_mode: SslMode::of(mode.as_deref(), roots)?,
            files,
            ..Targets::of_driver(driver)?
        })
    }

    pub(crate) fn user(&self) -> &str {
        self.driver.get_user().unwrap_or_default()
    }

    /// The name of the database, by default that of the user.
    pub(crate) fn dbname(&self) -> &str {
        self.driver.get_dbname().unwrap_or_else(|| self.user())
    }

    pub(super) fn has_network_host(&self) -> bool {
        self.hosts.iter().any(Target::is_on_network)
    }

    /// The hosts, in the order in which to try them.
    pub(crate) fn each_host(&self) -> Vec<Target> {
        let mut hosts = self.hosts.clone();
        if self.driver.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut hosts);
        }
        hosts
    }

    /// The driver's configuration for a host.
    pub(crate) fn driver(&self, host: &Target, mode: DriverMode) -> tokio_postgres::Config {
        let mut driver = self.driver.clone();
        driver.ssl_mode(mode);
        if driver.get_password().is_none()
            && let Some(password) = self.password(host)
        {
            driver.password(password);
        }
        driver
    }

    /// The password for a host in the password file.
    fn password(&self, host: &Target) -> Option<String> {
        let name = match &host.host {
            Host::Unix(folder) if *folder == default_folder() => "localhost".into(),
            _ => host.name(),
        };
        let file = self.files.get("passfile").map(PathBuf::from);
        let file = file.or_else(|| files::in_home(".pgpass"))?;
        let connection = [&name, &host.port.to_string(), self.dbname(), self.user()];
        files::password(&file, connection)
    }
}

/// Pairs hosts, addresses and ports, as libpq does.
fn paired(driver: &tokio_postgres::Config) -> Result<Vec<Target>, Error> {
    let (hosts, addresses) = (driver.get_hosts(), driver.get_hostaddrs());
    let ports = driver.get_ports();
    let count = hosts.len().max(addresses.len()).max(1);
    for (what, found, least) in [
        ("host names", hosts.len(), 1),
        ("hostaddr values", addresses.len(), 1),
        ("port numbers", ports.len(), 2),
    ] {
        if found >= least && found != count {
            return Err(bad(format!(
                "could not match {found} {what} to {count} hosts"
            )));
        }
    }
    let target = |n: usize| {
        let address = addresses.get(n).copied();
        let named = hosts.get(n).filter(|host| **host != Host::Tcp("".into()));
        let host = match (named, address) {
            (Some(host), _) => host.clone(),
            // Without a name, the address is what a certificate is compared with.
            (None, Some(address)) => Host::Tcp(address.to_string()),
            (None, None) => Host::Unix(default_folder().into()),
        };
        Target {
            host,
            address,
            port: *ports.get(n).or(ports.first()).unwrap_or(&5432),
        }
    };
    Ok((0..count).map(target).collect())
}

fn no_ids(target: &str) -> Error {
    bad(format!(
        "target_session_attrs \"{target}\" is not possible: only a server that takes writes has ids \
         (use \"any\", \"primary\" or \"read-write\")"
    ))
}

/// The folder of the socket that packages of PostgreSQL have, or else PostgreSQL's own.
fn default_folder() -> &'static Path {
    let packaged = Path::new("/var/run/postgresql");
    match packaged.is_dir() {
        true => packaged,
        false => Path::new("/tmp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(string: &str) -> Targets {
        Targets::of_string(string).expect("options")
    }

    fn shown(string: &str) -> Vec<String> {
        let targets = targets(string);
        targets.hosts.iter().map(Target::to_string).collect()
    }

    #[test]
    fn hosts_and_ports_are_paired_as_in_libpq() {
        assert_eq!(shown("host=a,b port=1,2"), ["a:1", "b:2"]);
        assert_eq!(shown("host=a,b port=1"), ["a:1", "b:1"]);
        assert_eq!(shown("host=a,b port=,2"), ["a:5432", "b:2"]);
        assert_eq!(
            shown("hostaddr=127.0.0.1,::1"),
            ["127.0.0.1:5432", "::1:5432"]
        );
        assert_eq!(shown("host=/run"), ["/run:5432"]);
        assert_eq!(shown(""), shown("host='' port=''"));
        assert!(!targets("").hosts[0].is_on_network());
        assert!(targets("host=/run hostaddr=::1").hosts[0].is_on_network());
    }

    #[test]
    fn options_and_values_that_cannot_be_are_named() {
        for (bad, word) in [
            ("hots=db", "`hots`"),
            ("gssencmode=require", "`gssencmode`"),
            ("requirepeer=x", "`requirepeer`"),
            (
                "ssl_min_protocol_version=TLSv1.3",
                "`ssl_min_protocol_version`",
            ),
            ("sslcrl=x", "`sslcrl`"),
            ("sslpassword=x", "`sslpassword`"),
            ("host=a,b port=1,2,3", "3 port numbers"),
            ("host=a,b hostaddr=::1", "1 hostaddr"),
            ("hostaddr=db", "`hostaddr`"),
            ("port=65536", "`port`"),
            ("connect_timeout=soon", "`connect_timeout`"),
            ("sslmode=full", "\"full\""),
            ("sslmode=verify-ca sslrootcert=system", "weak sslmode"),
            ("target_session_attrs=standby", "takes writes"),
        ] {
            let error = Targets::of_string(bad).expect_err("an error").to_string();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn values_mean_what_they_mean_in_libpq() {
        assert_eq!(targets("").connect_timeout, Some(CONNECT_TIMEOUT));
        for unlimited in ["connect_timeout=0", "connect_timeout=-1"] {
            assert_eq!(targets(unlimited).connect_timeout, None);
        }
        for (name, mode) in SslMode::NAMES {
            assert_eq!(targets(&format!("sslmode={name}")).ssl_mode, mode);
        }
        assert_eq!(targets("sslrootcert=system").ssl_mode, SslMode::VerifyFull);
        let config = &targets("tcp_user_timeout=1500 target_session_attrs=primary").driver;
        let limit = config.get_tcp_user_timeout();
        assert_eq!(limit, Some(&Duration::from_millis(1500)));
    }

    #[test]
    fn password_is_what_a_private_file_has_when_a_connection_is_made() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display();
        let targets = targets(&format!("host=h user=u dbname=d passfile={path}"));
        let password = || {
            let driver = targets.driver(&targets.hosts[0], DriverMode::Disable);
            driver.get_password().map(<[u8]>::to_vec)
        };
        for now in ["one", "two"] {
            std::fs::write(&file, format!("h:5432:d:u:{now}")).expect("written");
            assert_eq!(password().as_deref(), Some(now.as_bytes()));
        }
        let public = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&file, public).expect("its mode");
        assert_eq!(password(), None);
    }
}
