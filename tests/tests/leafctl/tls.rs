//! TLS: whatever `sslmode`, the certificates and the server are, a connection is made or refused as
//! psql makes or refuses it, and is encrypted or not as psql's is.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use leaf_tests::{Draw, Said, Server, Tls, leafctl, wait_until};
use tempfile::TempDir;

const MODES: [&str; 6] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Refused,
    Plain,
    Encrypted,
}

use Outcome::{Encrypted, Plain, Refused};

/// A server and a home folder of its clients.
struct Place {
    server: Server,
    home: TempDir,
}

impl Place {
    fn with(tls: &Tls) -> Place {
        let server = Server::options().tls(tls).set("log_connections", "on");
        let place = Place {
            server: server.start(),
            home: tempfile::tempdir().expect("a folder"),
        };
        fs::create_dir(place.home.path().join(".postgresql")).expect("a folder");
        place
    }

    /// A file of `~/.postgresql`.
    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(".postgresql").join(name)
    }

    fn string(&self, host: &str, options: &str) -> String {
        let port = self.server.port();
        format!(
            "host={host} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres {options}"
        )
    }

    fn psql(&self, string: &str) -> Outcome {
        let folder = std::env::var_os("LEAF_PG_BINDIR").expect("LEAF_PG_BINDIR");
        let mut psql = Command::new(PathBuf::from(folder).join("psql"));
        let ssl = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        psql.env("HOME", self.home.path())
            .args(["-XAtwc", ssl, "-d", string]);
        let said = psql.output().expect("psql");
        match (said.status.success(), said.stdout.as_slice()) {
            (true, b"t\n") => Encrypted,
            (true, b"f\n") => Plain,
            (false, _) => Refused,
            other => panic!("{other:?}"),
        }
    }

    /// The same, and what was said to a person.
    fn leafctl(&self, string: &str) -> (Outcome, String) {
        let before = self.server.log().len();
        let mut command = leafctl();
        command.env("HOME", self.home.path());
        let said = Said::by(command.args(["status", "-w", "-d", string]));
        let outcome = match said.code {
            Some(0) => {
                let log = self.server.log().split_off(before);
                let is_its = |line: &&str| {
                    line.contains("connection authorized") && line.contains("=leafctl")
                };
                let line = log.lines().rfind(is_its).expect("its connection");
                match line.contains("SSL enabled") {
                    true => Encrypted,
                    false => Plain,
                }
            }
            _ => Refused,
        };
        (outcome, said.err)
    }

    /// Compares both with each other; what it was.
    fn compare(&self, host: &str, options: &str) -> Outcome {
        let string = self.string(host, options);
        let expected = self.psql(&string);
        let (found, said) = self.leafctl(&string);
        assert_eq!(found, expected, "{host} {options}: {said}");
        found
    }
}

#[test]
fn certificates_of_an_authority_are_taken_and_refused_as_by_psql() {
    are_taken_and_refused_as_by_psql(&Tls::new());
}

#[test]
fn certificates_made_as_in_the_manual_are_taken_and_refused_as_by_psql() {
    are_taken_and_refused_as_by_psql(&Tls::signed_as_in_the_manual());
}

#[test]
fn certificates_that_sign_themselves_are_taken_and_refused_as_by_psql() {
    are_taken_and_refused_as_by_psql(&Tls::self_signed());
}

fn are_taken_and_refused_as_by_psql(tls: &Tls) {
    let mut outcomes = Vec::new();
    let place = Place::with(tls);
    let root = place.file("root.crt");
    let own = place.home.path().join("own.pem");
    fs::write(&own, tls.authority()).expect("a file");
    for at_home in [None, Some(tls.authority()), Some(Tls::new().authority())] {
        match &at_home {
            None => drop(fs::remove_file(&root)),
            Some(authority) => fs::write(&root, authority).expect("a file"),
        }
        for mode in MODES {
            let own = format!("sslmode={mode} sslrootcert={}", own.display());
            let nowhere = format!("sslmode={mode} sslrootcert=/nonexistent");
            for options in [format!("sslmode={mode}"), own, nowhere] {
                outcomes.push(place.compare("localhost", &options));
            }
        }
    }
    let own = format!("sslrootcert={}", own.display());
    for mode in ["require", "verify-ca", "verify-full"] {
        outcomes.push(place.compare("other.example", &format!("sslmode={mode} {own}")));
    }
    // As in each mode that verifies, with the certificates of the manual, too.
    let full = place.leafctl(&place.string("localhost", &format!("sslmode=verify-full {own}")));
    assert_eq!(full.0, Encrypted, "{}", full.1);
    outcomes.sort_unstable();
    outcomes.dedup();
    assert_eq!(outcomes, [Refused, Plain, Encrypted]);
}

#[test]
fn server_that_refuses_one_kind_of_connection_gets_the_other_as_from_psql() {
    let place = Place::with(&Tls::new());
    let mut reload = place.server.connect();
    for (rule, allow, prefer, require) in [
        ("hostssl", Encrypted, Encrypted, Encrypted),
        ("hostnossl", Plain, Plain, Refused),
    ] {
        let rules = format!("local all all trust\n{rule} all all all trust\n");
        place.server.write("pg_hba.conf", rules.as_bytes());
        let loaded = "SELECT pg_conf_load_time()::text";
        let before = reload.text(loaded);
        reload.run("SELECT pg_reload_conf()");
        wait_until("the rules are read", || reload.text(loaded) != before);
        let compare = |mode: &str| place.compare("localhost", &format!("sslmode={mode}"));
        let found = ["allow", "prefer", "require"].map(compare);
        assert_eq!(found, [allow, prefer, require], "{rule}");
        compare("disable");
    }
}

#[test]
fn certificate_of_the_client_is_shown_as_by_psql() {
    let tls = Tls::new();
    let place = Place::with(&tls);
    place
        .server
        .write("clients.crt", tls.authority().as_bytes());
    place.server.write(
        "pg_hba.conf",
        b"local all all trust\nhostssl all all all cert\n",
    );
    place.server.reload("ssl_ca_file", "clients.crt");
    let require = "sslmode=require";
    assert_eq!(place.compare("localhost", require), Refused);
    let (certificate, key) = tls.of_client("postgres");
    fs::write(place.file("postgresql.crt"), certificate).expect("a file");
    fs::write(place.file("postgresql.key"), key).expect("a file");
    let readable_for = |mode| {
        let permissions = Permissions::from_mode(mode);
        fs::set_permissions(place.file("postgresql.key"), permissions).expect("its mode");
    };
    readable_for(0o644);
    assert_eq!(place.compare("localhost", require), Refused);
    readable_for(0o600);
    assert_eq!(place.compare("localhost", require), Encrypted);
    let hidden = format!("{require} sslcert=/nonexistent");
    assert_eq!(place.compare("localhost", &hidden), Refused);
}

#[test]
fn options_that_change_nothing_here_are_taken() {
    let place = Place::with(&Tls::new());
    for option in [
        "sslcompression=1",
        "ssl_min_protocol_version=TLSv1.2",
        "gssencmode=prefer",
        "client_encoding=utf8",
    ] {
        assert_eq!(place.compare("localhost", option), Encrypted, "{option}");
    }
    // A Unix-domain socket has no TLS, whatever the mode.
    let socket = format!(
        "host={} port={} user=postgres dbname=postgres sslmode=verify-full",
        place.server.host(),
        place.server.port()
    );
    assert_eq!(place.leafctl(&socket).0, Plain);
}

#[test]
fn errors_of_tls_name_options() {
    let place = Place::with(&Tls::new());
    let said = |options: &str| place.leafctl(&place.string("localhost", options)).1;
    let missing = said("sslmode=verify-full");
    assert!(
        missing.contains("root.crt") && missing.contains("sslrootcert=system"),
        "{missing}"
    );
    fs::write(place.file("root.crt"), Tls::new().authority()).expect("a file");
    let unknown = said("sslmode=require");
    assert!(unknown.contains("certificate verify failed"), "{unknown}");
    assert!(unknown.contains("hint: check sslmode"), "{unknown}");
    for said in [missing, unknown] {
        assert!(!said.contains("Config"), "{said}");
    }
}

#[test]
fn host_that_is_a_path_with_an_address_has_tls_as_by_psql() {
    let place = Place::with(&Tls::new());
    let differ: Vec<_> = MODES
        .into_iter()
        .filter_map(|mode| {
            let string = place.string("/run", &format!("sslmode={mode}"));
            let (expected, found) = (place.psql(&string), place.leafctl(&string));
            (found.0 != expected).then(|| format!("{mode}: {expected:?}, {found:?}"))
        })
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}
