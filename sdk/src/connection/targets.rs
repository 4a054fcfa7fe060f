//! The hosts to try, each with the configuration of the driver.

use std::env;
use std::fmt;
use std::time::Duration;

use tokio_postgres::config::{
    ChannelBinding, Host, LoadBalanceHosts, SslMode as DriverMode, SslNegotiation,
    TargetSessionAttrs,
};

use super::hosts::{self, Target};
use super::options::{Options, bad, invalid};
use super::ssl_mode::{SslMode, TlsUse};
use crate::Error;

/// How long to wait for each host if the options do not say it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const APPLICATION_NAME: &str = "leaf-sdk";

/// The hosts to try, in turn, and how to connect to them.
#[derive(Clone)]
pub(crate) struct Targets {
    /// Everything but hosts and passwords.
    common: tokio_postgres::Config,
    hosts: Vec<Target>,
    /// For each host, `None` without limit.
    pub(crate) connect_timeout: Option<Duration>,
    is_shuffled: bool,
    /// What `target_session_attrs` says.
    pub(crate) needs: Needs,
    pub(super) ssl_mode: SslMode,
    #[cfg(feature = "tls")]
    pub(super) certificates: super::certificates::Certificates,
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

    /// Sets the password for all hosts.
    pub(crate) fn set_password(&mut self, password: &str) {
        self.common.password(password);
        for host in &mut self.hosts {
            host.password = None;
        }
    }

    /// Sets the database.
    pub(crate) fn set_database(&mut self, name: &str) {
        self.common.dbname(name);
    }

    pub(crate) fn user(&self) -> &str {
        self.common.get_user().unwrap_or_default()
    }

    /// The name of the database, by default that of the user.
    pub(crate) fn dbname(&self) -> &str {
        self.common.get_dbname().unwrap_or_else(|| self.user())
    }

    /// The hosts with their ports, for people.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.hosts.iter().map(Target::to_string).collect()
    }

    /// From the driver's configuration.
    pub(crate) fn of_driver(config: &tokio_postgres::Config) -> Result<Targets, Error> {
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(read_only("read-only"));
        }
        let password = config.get_password().map(<[u8]>::to_vec);
        let ssl_mode = match config.get_ssl_mode() {
            DriverMode::Disable => SslMode::Disable,
            DriverMode::Require => SslMode::Require,
            _ => SslMode::Prefer,
        };
        Ok(Targets {
            common: without_hosts(config),
            hosts: hosts::paired(
                config.get_hosts().to_vec(),
                config.get_hostaddrs().to_vec(),
                config.get_ports().to_vec(),
                |_, _| password.clone(),
            )?,
            connect_timeout: Some(*config.get_connect_timeout().unwrap_or(&CONNECT_TIMEOUT)),
            is_shuffled: config.get_load_balance_hosts() == LoadBalanceHosts::Random,
            needs: match config.get_target_session_attrs() {
                TargetSessionAttrs::ReadWrite => Needs::Writes,
                _ => Needs::Any,
            },
            ssl_mode,
            #[cfg(feature = "tls")]
            certificates: super::certificates::Certificates::default(),
        })
    }

    fn of_options(options: &Options) -> Result<Targets, Error> {
        let needs = match options.get("target_session_attrs").unwrap_or("any") {
            "any" => Needs::Any,
            "primary" => Needs::Primary,
            "read-write" => Needs::Writes,
            other @ ("read-only" | "standby" | "prefer-standby") => return Err(read_only(other)),
            other => return Err(invalid("target_session_attrs", other)),
        };
        let is_shuffled = [("disable", false), ("random", true)];
        Ok(Targets {
            common: common(options)?,
            hosts: hosts::of_options(options)?,
            connect_timeout: match options.number::<i64>("connect_timeout")? {
                None => Some(CONNECT_TIMEOUT),
                Some(seconds) => seconds_above_zero(seconds),
            },
            is_shuffled: options.choice("load_balance_hosts", false, &is_shuffled)?,
            needs,
            ssl_mode: ssl_mode(options)?,
            #[cfg(feature = "tls")]
            certificates: super::certificates::Certificates::of(options)?,
        })
    }

    pub(super) fn has_socket(&self) -> bool {
        !self.hosts.iter().all(Target::is_on_network)
    }

    pub(super) fn has_network_host(&self) -> bool {
        self.hosts.iter().any(Target::is_on_network)
    }

    pub(super) fn is_tls_direct(&self) -> bool {
        self.common.get_ssl_negotiation() == SslNegotiation::Direct
    }

    /// The driver's modes with which to try a host, one after the other.
    pub(crate) fn ssl_modes(
        &self,
        host: &tokio_postgres::Config,
        use_of_tls: TlsUse,
    ) -> &'static [DriverMode] {
        match use_of_tls {
            TlsUse::Never => &[DriverMode::Disable],
            TlsUse::Always => &[DriverMode::Require],
            // A Unix-domain socket has no TLS.
            TlsUse::ByMode => match host.get_hosts() {
                [Host::Tcp(_), ..] => self.ssl_mode.of_driver(),
                _ => &[DriverMode::Disable],
            },
        }
    }

    /// The driver's configuration of each host, in the order in which to try them.
    pub(crate) fn each_host(&self) -> Vec<tokio_postgres::Config> {
        let mut hosts: Vec<&Target> = self.hosts.iter().collect();
        if self.is_shuffled {
            fastrand::shuffle(&mut hosts);
        }
        let configure = |target: &Target| {
            let mut config = self.common.clone();
            match &target.host {
                Host::Tcp(name) => config.host(name),
                Host::Unix(folder) => config.host_path(folder),
            };
            if let Some(address) = target.address {
                config.hostaddr(address);
            }
            if let Some(password) = &target.password {
                config.password(password);
            }
            config.port(target.port);
            config
        };
        hosts.into_iter().map(configure).collect()
    }
}

/// What a person may see: no password.
impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets")
            .field("hosts", &self.hosts())
            .field("user", &self.common.get_user())
            .field("dbname", &self.common.get_dbname())
            .field("ssl_mode", &self.ssl_mode)
            .finish_non_exhaustive()
    }
}

fn read_only(target: &str) -> Error {
    bad(format!(
        "target_session_attrs \"{target}\" is not possible: only a server that takes writes has ids"
    ))
}

/// Everything but hosts and passwords. Unix-domain sockets and TLS are decided later.
fn common(options: &Options) -> Result<tokio_postgres::Config, Error> {
    let mut config = tokio_postgres::Config::new();
    if let Some(user) = options.get("user") {
        config.user(user);
    }
    if let Some(dbname) = options.get("dbname") {
        config.dbname(dbname);
    }
    if let Some(password) = options.get("password") {
        config.password(password);
    }
    if let Some(settings) = options.get("options") {
        config.options(settings);
    }
    let name = options.get("application_name");
    let fallback = options.get("fallback_application_name");
    config.application_name(name.or(fallback).unwrap_or(APPLICATION_NAME));
    if let Some(keepalives) = options.number::<i32>("keepalives")? {
        config.keepalives(keepalives != 0);
    }
    let seconds = |name| -> Result<Option<Duration>, Error> {
        Ok(options.number(name)?.and_then(seconds_above_zero))
    };
    if let Some(idle) = seconds("keepalives_idle")? {
        config.keepalives_idle(idle);
    }
    if let Some(interval) = seconds("keepalives_interval")? {
        config.keepalives_interval(interval);
    }
    if let Some(count) = options.number::<i32>("keepalives_count")?
        && let Ok(count @ 1..) = u32::try_from(count)
    {
        config.keepalives_retries(count);
    }
    if let Some(ms) = options.number::<i32>("tcp_user_timeout")?
        && let Ok(ms @ 1..) = u64::try_from(ms)
    {
        config.tcp_user_timeout(Duration::from_millis(ms));
    }
    config.ssl_negotiation(options.choice(
        "sslnegotiation",
        SslNegotiation::Postgres,
        &[
            ("postgres", SslNegotiation::Postgres),
            ("direct", SslNegotiation::Direct),
        ],
    )?);
    config.channel_binding(options.choice(
        "channel_binding",
        ChannelBinding::Prefer,
        &[
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ],
    )?);
    Ok(config)
}

fn ssl_mode(options: &Options) -> Result<SslMode, Error> {
    let mode = options.choice("sslmode", SslMode::Prefer, &SslMode::NAMES)?;
    match (options.get("sslrootcert"), options.get("sslmode")) {
        (Some("system"), None | Some("verify-full")) => Ok(SslMode::VerifyFull),
        (Some("system"), Some(mode)) => Err(bad(format!(
            "weak sslmode \"{mode}\" may not be used with sslrootcert=system (use \"verify-full\")"
        ))),
        _ => Ok(mode),
    }
}

/// libpq takes zero and less for "no limit".
fn seconds_above_zero(seconds: i64) -> Option<Duration> {
    let seconds = u64::try_from(seconds).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// A copy of the driver's configuration without hosts.
fn without_hosts(config: &tokio_postgres::Config) -> tokio_postgres::Config {
    let mut copy = tokio_postgres::Config::new();
    if let Some(user) = config.get_user() {
        copy.user(user);
    }
    if let Some(password) = config.get_password() {
        copy.password(password);
    }
    if let Some(dbname) = config.get_dbname() {
        copy.dbname(dbname);
    }
    if let Some(options) = config.get_options() {
        copy.options(options);
    }
    copy.application_name(config.get_application_name().unwrap_or(APPLICATION_NAME));
    if let Some(timeout) = config.get_tcp_user_timeout() {
        copy.tcp_user_timeout(*timeout);
    }
    copy.keepalives(config.get_keepalives());
    copy.keepalives_idle(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        copy.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        copy.keepalives_retries(retries);
    }
    copy.ssl_negotiation(config.get_ssl_negotiation());
    copy.channel_binding(config.get_channel_binding());
    copy
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
            ("hostaddr=db", "\"hostaddr\""),
            ("port=0", "\"port\""),
            ("port=65536", "\"65536\""),
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
        let config = &targets("tcp_user_timeout=1500 target_session_attrs=primary").common;
        let limit = config.get_tcp_user_timeout();
        assert_eq!(limit, Some(&Duration::from_millis(1500)));
    }

    #[test]
    fn every_option_of_the_drivers_configuration_is_kept() {
        let string = "host=a hostaddr=::1 port=5 user=u password=p dbname=d options=o \
                      application_name=n sslmode=require connect_timeout=7 tcp_user_timeout=8 \
                      keepalives=0 keepalives_idle=9 keepalives_interval=10 \
                      keepalives_retries=11 channel_binding=require";
        let driver: tokio_postgres::Config = string.parse().expect("a configuration");
        let kept = Targets::of_driver(&driver).expect("a configuration");
        let mut host = kept.each_host().remove(0);
        let [mode] = kept.ssl_modes(&host, TlsUse::Always) else {
            panic!("one attempt");
        };
        host.ssl_mode(*mode);
        host.connect_timeout(kept.connect_timeout.expect("a limit"));
        assert_eq!(host, driver);
    }
}
