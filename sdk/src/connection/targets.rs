//! The hosts to try, and the driver's configuration for all of them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt};

use tokio_postgres::config::{
    Host, LoadBalanceHosts, SslMode as DriverMode, SslNegotiation, TargetSessionAttrs,
};

use super::files;
use super::options::{Options, bad, invalid};
use super::ssl_mode::{SslMode, TlsUse};
use crate::Error;

/// How long to wait for each host if the options do not say it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const APPLICATION_NAME: &str = "leaf-sdk";

/// The hosts to try, in turn, and how to connect to them.
#[derive(Clone)]
pub(crate) struct Targets {
    /// Its hosts, ports and passwords are those of the targets.
    driver: tokio_postgres::Config,
    hosts: Vec<Target>,
    /// For each host, `None` without limit.
    pub(crate) connect_timeout: Option<Duration>,
    /// What `target_session_attrs` says.
    pub(crate) needs: Needs,
    pub(super) ssl_mode: SslMode,
    #[cfg(feature = "tls")]
    pub(super) certificates: super::certificates::Certificates,
}

/// A host to try.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    password: Option<Vec<u8>>,
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
        matches!(self.host, Host::Tcp(_))
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
        Targets::of_options(&Options::of_string(text)?)
    }

    /// From keywords and their values, and from environment variables.
    pub(crate) fn of_params<'a>(
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Targets, Error> {
        let variable = |name: &str| env::var(name).ok();
        Targets::of_options(&Options::of_params(params, variable)?)
    }

    /// From the driver's configuration.
    pub(crate) fn of_driver(driver: tokio_postgres::Config) -> Result<Targets, Error> {
        Ok(Targets {
            connect_timeout: Some(*driver.get_connect_timeout().unwrap_or(&CONNECT_TIMEOUT)),
            needs: match driver.get_target_session_attrs() {
                TargetSessionAttrs::ReadWrite => Needs::Writes,
                TargetSessionAttrs::ReadOnly => return Err(read_only("read-only")),
                _ => Needs::Any,
            },
            ssl_mode: match driver.get_ssl_mode() {
                DriverMode::Disable => SslMode::Disable,
                DriverMode::Require => SslMode::Require,
                _ => SslMode::Prefer,
            },
            #[cfg(feature = "tls")]
            certificates: super::certificates::Certificates::default(),
            ..Targets::paired(driver)?
        })
    }

    fn of_options(options: &Options) -> Result<Targets, Error> {
        let mut driver = options.driver()?;
        if let (None, Some(fallback)) = (
            driver.get_application_name(),
            options.get("fallback_application_name"),
        ) {
            driver.application_name(fallback);
        }
        // The driver takes it for seconds.
        if let Some(ms @ 1..) = options.number::<i64>("tcp_user_timeout")? {
            driver.tcp_user_timeout(Duration::from_millis(ms.unsigned_abs()));
        }
        let mut targets = Targets {
            connect_timeout: match options.number::<i64>("connect_timeout")? {
                None => Some(CONNECT_TIMEOUT),
                // As in libpq, there is no limit then.
                Some(..=0) => None,
                Some(seconds) => Some(Duration::from_secs(seconds.unsigned_abs())),
            },
            needs: match options.get("target_session_attrs").unwrap_or("any") {
                "any" => Needs::Any,
                "primary" => Needs::Primary,
                "read-write" => Needs::Writes,
                other @ ("read-only" | "standby" | "prefer-standby") => {
                    return Err(read_only(other));
                }
                other => return Err(invalid("target_session_attrs", other)),
            },
            ssl_mode: SslMode::of(options)?,
            #[cfg(feature = "tls")]
            certificates: super::certificates::Certificates::of(options)?,
            ..Targets::paired(driver)?
        };
        if targets.driver.get_password().is_none() {
            targets.read_passwords(options.get("passfile").map(PathBuf::from));
        }
        Ok(targets)
    }

    /// Pairs hosts, addresses and ports, as libpq does.
    fn paired(mut driver: tokio_postgres::Config) -> Result<Targets, Error> {
        if driver.get_application_name().is_none() {
            driver.application_name(APPLICATION_NAME);
        }
        let (hosts, addresses) = (driver.get_hosts(), driver.get_hostaddrs());
        let ports = driver.get_ports();
        let count = hosts.len().max(addresses.len()).max(1);
        let match_up = |what: &str, found: usize| {
            bad(format!("could not match {found} {what} to {count} hosts"))
        };
        if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
            return Err(match_up("hostaddr values", addresses.len()));
        }
        if ports.len() > 1 && ports.len() != count {
            return Err(match_up("port numbers", ports.len()));
        }
        if ports.contains(&0) {
            return Err(invalid("port", "0"));
        }
        let target = |n: usize| {
            let address = addresses.get(n).copied();
            let host = match (hosts.get(n), address) {
                // Without a name, the address is what a certificate is compared with.
                (None, Some(address)) => Host::Tcp(address.to_string()),
                (None, None) => Host::Unix(default_folder().into()),
                (Some(Host::Tcp(name)), _) if name.is_empty() => {
                    Host::Unix(default_folder().into())
                }
                (Some(Host::Tcp(name)), _) if name.starts_with('@') => Host::Unix(name.into()),
                (Some(host), _) => host.clone(),
            };
            Target {
                host,
                address,
                port: *ports.get(n).or(ports.first()).unwrap_or(&5432),
                password: None,
            }
        };
        let hosts = (0..count).map(target).collect();
        Ok(Targets {
            driver,
            hosts,
            connect_timeout: None,
            needs: Needs::Any,
            ssl_mode: SslMode::Prefer,
            #[cfg(feature = "tls")]
            certificates: super::certificates::Certificates::default(),
        })
    }

    /// Takes the passwords of the hosts from a password file, by default the user's.
    fn read_passwords(&mut self, file: Option<PathBuf>) {
        let Some(file) = file.or_else(|| Some(env::home_dir()?.join(".pgpass"))) else {
            return;
        };
        let of_system = || {
            ["USER", "LOGNAME"]
                .iter()
                .find_map(|name| env::var(name).ok())
        };
        let user = self.driver.get_user().map(str::to_owned);
        let user = user.or_else(of_system).unwrap_or_default();
        let dbname = self.driver.get_dbname().unwrap_or(&user);
        for target in &mut self.hosts {
            let host = match &target.host {
                Host::Unix(folder) if *folder == default_folder() => "localhost".into(),
                _ => target.name(),
            };
            let connection = [&host, &target.port.to_string(), dbname, &user];
            target.password = files::password(&file, connection).map(String::into_bytes);
        }
    }

    /// Sets the password for all hosts.
    pub(crate) fn set_password(&mut self, password: &str) {
        self.driver.password(password);
        for host in &mut self.hosts {
            host.password = None;
        }
    }

    /// Sets the database.
    pub(crate) fn set_database(&mut self, name: &str) {
        self.driver.dbname(name);
    }

    pub(crate) fn user(&self) -> &str {
        self.driver.get_user().unwrap_or_default()
    }

    /// The name of the database, by default that of the user.
    pub(crate) fn dbname(&self) -> &str {
        self.driver.get_dbname().unwrap_or_else(|| self.user())
    }

    /// The hosts with their ports, for people.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.hosts.iter().map(Target::to_string).collect()
    }

    pub(super) fn has_socket(&self) -> bool {
        !self.hosts.iter().all(Target::is_on_network)
    }

    pub(super) fn has_network_host(&self) -> bool {
        self.hosts.iter().any(Target::is_on_network)
    }

    pub(super) fn is_tls_direct(&self) -> bool {
        self.driver.get_ssl_negotiation() == SslNegotiation::Direct
    }

    /// The driver's modes with which to try a host, one after the other.
    pub(crate) fn ssl_modes(&self, host: &Target, use_of_tls: TlsUse) -> &'static [DriverMode] {
        match use_of_tls {
            TlsUse::Never => &[DriverMode::Disable],
            TlsUse::Always => &[DriverMode::Require],
            TlsUse::ByMode if host.is_on_network() => self.ssl_mode.of_driver(),
            // A Unix-domain socket has no TLS.
            TlsUse::ByMode => &[DriverMode::Disable],
        }
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
        if let Some(password) = &host.password {
            driver.password(password);
        }
        driver
    }
}

/// What a person may see: no password.
impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets")
            .field("hosts", &self.hosts())
            .field("user", &self.driver.get_user())
            .field("dbname", &self.driver.get_dbname())
            .field("ssl_mode", &self.ssl_mode)
            .finish_non_exhaustive()
    }
}

fn read_only(target: &str) -> Error {
    bad(format!(
        "target_session_attrs \"{target}\" is not possible: only a server that takes writes has ids"
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
        targets(string).hosts()
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
        assert_eq!(shown("host=/run,@x"), ["/run:5432", "@x:5432"]);
        assert_eq!(shown(""), shown("host='' port=''"));
        assert!(matches!(targets("").hosts[0].host, Host::Unix(_)));
    }

    #[test]
    fn values_that_cannot_be_are_named() {
        for (bad, word) in [
            ("host=a,b port=1,2,3", "3 port numbers"),
            ("host=a,b hostaddr=::1", "1 hostaddr"),
            ("hostaddr=db", "`hostaddr`"),
            ("port=0", "\"port\""),
            ("port=65536", "`port`"),
            ("connect_timeout=soon", "\"soon\""),
            ("sslmode=full", "\"sslmode\""),
            ("sslmode=verify-ca sslrootcert=system", "weak sslmode"),
            ("target_session_attrs=standby", "takes writes"),
            ("target_session_attrs=best", "\"best\""),
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
}
