//! What a server is to be like, before it is started.

use super::Server;
use crate::account::{command, run};
use crate::{Draw, Installation, Tls, cluster, edition};
use postgres::Client;
use std::path::PathBuf;

/// What a server is to be like, before it is started.
pub struct Options {
    pub(super) settings: String,
    pub(super) fresh: bool,
    pub(super) old: bool,
    pub(super) bindir: Option<PathBuf>,
    pub(super) bare: bool,
    pub(super) plain: bool,
    pub(super) settings_of_plain: Vec<String>,
    pub(super) clock: bool,
    pub(super) disk: bool,
    pub(super) black_hole: bool,
    pub(super) tls: Option<Tls>,
}

impl Options {
    /// A line of `postgresql.conf`; the last one of a name counts.
    pub fn set(mut self, name: &str, value: &str) -> Options {
        if self.plain {
            self.settings_of_plain
                .extend(edition::set_plain(name, value));
        }
        self.settings += &format!("{name} = '{value}'\n");
        self
    }

    /// A system identifier of its own.
    pub fn fresh(mut self) -> Options {
        self.fresh = true;
        self
    }

    /// The server at which upgrades begin; its version may be an older one.
    pub fn old(mut self) -> Options {
        self.old = true;
        self
    }

    /// Of another installation than the one that is tested.
    pub fn installation(mut self, installation: &Installation) -> Options {
        self.bindir = Some(installation.bindir().to_owned());
        self
    }

    /// Leaf is loaded but no database has the extension.
    pub fn bare(mut self) -> Options {
        self.bare = true;
        self
    }

    /// With the plain edition, whichever is tested.
    pub fn plain(mut self) -> Options {
        self.plain = true;
        self
    }

    /// A clock of its own: [`Server::clock`].
    pub fn clock(mut self) -> Options {
        self.clock = true;
        self
    }

    /// A disk that can be full: [`Server::disk`].
    pub fn disk(mut self) -> Options {
        self.disk = true;
        self
    }

    /// With the name `black.hole`, which is never resolved.
    pub fn black_hole(mut self) -> Options {
        self.black_hole = true;
        self
    }

    /// Listens on [`Server::port`] of this machine, for connections with TLS.
    pub fn tls(mut self, tls: &Tls) -> Options {
        self.tls = Some(tls.clone());
        self
    }

    /// Starts the server and installs leaf in the database `postgres`.
    pub fn start(self) -> Server {
        let bindir = match (&self.bindir, self.old) {
            (Some(bindir), _) => bindir.clone(),
            (None, true) => cluster::old_bindir(),
            (None, false) => cluster::bindir(),
        };
        let mut server = Server::prepare(&bindir, |data| match self.fresh || self.old {
            true => cluster::init(&bindir, data),
            false => cluster::copy_template(data),
        });
        server.configure(DEFAULTS);
        if !self.plain {
            server.configure("shared_preload_libraries = 'leaf'\n");
        }
        server.come_up(&self);
        match (self.bare, self.plain) {
            (true, _) => {}
            (false, false) => server.connect().run("CREATE EXTENSION leaf"),
            (false, true) => {
                edition::install_plain(&server);
                server.connect().run(&self.settings_of_plain.join(";"));
            }
        }
        server
    }

    /// Starts the server and creates the tag `orders` of this step; returns it with
    /// the superuser's session that has done so.
    pub fn start_with_orders(self, step: u32) -> (Server, Client) {
        let server = self.start();
        let mut client = server.connect();
        client.run(&format!("SELECT leaf_tag_create('orders', step => {step})"));
        (server, client)
    }

    /// Starts a standby of `primary`, from a base backup.
    pub fn start_standby_of(self, primary: &Server) -> Server {
        let mut server = base_backup(primary, "-R");
        // The backup brought the primary's configuration with it.
        server.come_up(&self);
        server
    }

    /// A base backup of `primary` that is to be started.
    pub fn start_backup_of(self, primary: &Server) -> Server {
        let server = base_backup(primary, "-v");
        server.configure(&self.settings);
        server
    }
}

fn base_backup(primary: &Server, option: &str) -> Server {
    let bindir = &primary.bindir;
    Server::prepare(bindir, |data| {
        run(command(&bindir.join("pg_basebackup"))
            .arg("-h")
            .arg(primary.socket.path())
            .args("-U postgres --no-sync -c fast -X stream".split(' '))
            .args([option, "-D"])
            .arg(data));
    })
}

/// A statement that hangs is to fail its test, not to hold up the suite.
const DEFAULTS: &str = "\
statement_timeout = 2min
listen_addresses = ''
shared_buffers = 32MB
max_connections = 50
max_wal_size = 256MB
log_line_prefix = '%m [%p] %b '
timezone = UTC
";
