//! The hosts that the options name, each with its address, port and password.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::{env, iter};

use tokio_postgres::config::Host;

use super::files;
use super::options::{Options, bad, invalid};
use crate::Error;

/// A host to try.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) password: Option<Vec<u8>>,
}

impl Target {
    pub(super) fn is_on_network(&self) -> bool {
        matches!(self.host, Host::Tcp(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(name) => write!(f, "{name}:{}", self.port),
            Host::Unix(folder) => write!(f, "{}:{}", folder.display(), self.port),
        }
    }
}

/// The hosts that the options name.
pub(super) fn of_options(options: &Options) -> Result<Vec<Target>, Error> {
    let host = |name: &str| match name {
        "" => default_host(),
        name if name.starts_with(['/', '@']) => Host::Unix(name.into()),
        name => Host::Tcp(name.to_owned()),
    };
    let port = |text: &str| match text {
        "" => Ok(5432),
        text => match text.parse() {
            Ok(0) | Err(_) => Err(invalid("port", text)),
            Ok(port) => Ok(port),
        },
    };
    let address = |text: &str| -> Result<IpAddr, Error> {
        text.parse().map_err(|_| invalid("hostaddr", text))
    };
    let addresses = options.list("hostaddr").into_iter().map(address);
    let addresses: Vec<_> = addresses.collect::<Result<_, _>>()?;
    let ports = options.list("port").into_iter().map(port);
    let mut hosts: Vec<_> = options.list("host").into_iter().map(host).collect();
    if hosts.is_empty() && addresses.is_empty() {
        hosts.push(default_host());
    }
    let user = options.get("user").map(str::to_owned).or_else(os_user);
    let user = user.unwrap_or_default();
    let dbname = options.get("dbname").unwrap_or(&user);
    let file = options.get("passfile").map(PathBuf::from);
    let file = file.or_else(|| env::home_dir().map(|home| home.join(".pgpass")));
    let password = |host: &Host, port: u16| {
        if options.get("password").is_some() {
            return None;
        }
        let host = match host {
            Host::Tcp(name) => name,
            Host::Unix(folder) if *folder == default_folder() => "localhost",
            Host::Unix(folder) => folder.to_str()?,
        };
        let connection = [host, &port.to_string(), dbname, &user];
        files::password(file.as_deref()?, connection).map(String::into_bytes)
    };
    paired(hosts, addresses, ports.collect::<Result<_, _>>()?, password)
}

/// Pairs hosts, addresses and ports, as libpq does.
pub(super) fn paired(
    hosts: Vec<Host>,
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
    password: impl Fn(&Host, u16) -> Option<Vec<u8>>,
) -> Result<Vec<Target>, Error> {
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err(bad("there is no host to connect to".into()));
    }
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(bad(format!(
            "could not match {} host names to {} hostaddr values",
            hosts.len(),
            addresses.len()
        )));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(bad(format!(
            "could not match {} port numbers to {count} hosts",
            ports.len()
        )));
    }
    let port = |n: usize| *ports.get(n).or(ports.first()).unwrap_or(&5432);
    let addresses = addresses.into_iter().map(Some).chain(iter::repeat(None));
    let hosts = hosts.into_iter().map(Some).chain(iter::repeat(None));
    let target = |(n, (host, address)): (usize, (Option<Host>, Option<IpAddr>))| {
        // Without a name, the address is what a certificate is compared with.
        let host = host.or_else(|| Some(Host::Tcp(address?.to_string())))?;
        Some(Target {
            password: password(&host, port(n)),
            host,
            address,
            port: port(n),
        })
    };
    let pairs = hosts.zip(addresses).take(count).enumerate();
    Ok(pairs.filter_map(target).collect())
}

/// The folder of the socket that packages of PostgreSQL have, or else PostgreSQL's own.
fn default_folder() -> &'static Path {
    let packaged = Path::new("/var/run/postgresql");
    match packaged.is_dir() {
        true => packaged,
        false => Path::new("/tmp"),
    }
}

fn default_host() -> Host {
    Host::Unix(default_folder().into())
}

/// The name of the operating system's user, which is the default of `user`.
fn os_user() -> Option<String> {
    ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| env::var(name).ok())
}
