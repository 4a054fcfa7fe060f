//! The keywords of libpq's connection strings, and what the library makes of them.

/// A keyword.
pub(super) struct Keyword {
    pub(super) name: &'static str,
    /// The environment variable that has its value if nothing else does.
    pub(super) variable: Option<&'static str>,
    pub(super) meaning: Meaning,
}

/// What the library makes of a keyword.
pub(super) enum Meaning {
    /// It does what it does in libpq.
    Known,
    /// It only matters for something that is never used, such as GSSAPI.
    Unused,
    /// Only these values are possible here; another one is an error.
    Only(&'static [&'static str]),
    /// It cannot be used here; the text says what can.
    Unsupported(&'static str),
}

use Meaning::{Known, Only, Unsupported, Unused};

const KEY: &str = "use a certificate whose key has no password";
const AUTHENTICATION: &str = "the driver does not have it";

const fn of(name: &'static str, variable: Option<&'static str>, meaning: Meaning) -> Keyword {
    Keyword {
        name,
        variable,
        meaning,
    }
}

/// All keywords of PostgreSQL 18, and the older ones.
pub(super) const KEYWORDS: &[Keyword] = &[
    of("service", Some("PGSERVICE"), Known),
    of("servicefile", Some("PGSERVICEFILE"), Known),
    of("user", Some("PGUSER"), Known),
    of("password", Some("PGPASSWORD"), Known),
    of("passfile", Some("PGPASSFILE"), Known),
    of("dbname", Some("PGDATABASE"), Known),
    of("host", Some("PGHOST"), Known),
    of("hostaddr", Some("PGHOSTADDR"), Known),
    of("port", Some("PGPORT"), Known),
    of("connect_timeout", Some("PGCONNECT_TIMEOUT"), Known),
    of("options", Some("PGOPTIONS"), Known),
    of("application_name", Some("PGAPPNAME"), Known),
    of("fallback_application_name", None, Known),
    of("keepalives", None, Known),
    of("keepalives_idle", None, Known),
    of("keepalives_interval", None, Known),
    of("keepalives_count", None, Known),
    of("tcp_user_timeout", None, Known),
    of("sslmode", Some("PGSSLMODE"), Known),
    of("sslnegotiation", Some("PGSSLNEGOTIATION"), Known),
    of("sslrootcert", Some("PGSSLROOTCERT"), Known),
    of("channel_binding", Some("PGCHANNELBINDING"), Known),
    of("target_session_attrs", Some("PGTARGETSESSIONATTRS"), Known),
    of("load_balance_hosts", Some("PGLOADBALANCEHOSTS"), Known),
    // Texts are always UTF-8.
    of(
        "client_encoding",
        Some("PGCLIENTENCODING"),
        Only(&["UTF8", "utf8", "UTF-8", "utf-8", "auto"]),
    ),
    of(
        "gssencmode",
        Some("PGGSSENCMODE"),
        Only(&["disable", "prefer"]),
    ),
    of("krbsrvname", Some("PGKRBSRVNAME"), Unused),
    of("gsslib", Some("PGGSSLIB"), Unused),
    of("gssdelegation", Some("PGGSSDELEGATION"), Unused),
    // Nothing is compressed.
    of("sslcompression", Some("PGSSLCOMPRESSION"), Unused),
    of("sslsni", Some("PGSSLSNI"), Known),
    of(
        "sslcertmode",
        Some("PGSSLCERTMODE"),
        Only(&["disable", "allow"]),
    ),
    of("sslcert", Some("PGSSLCERT"), Known),
    of("sslkey", Some("PGSSLKEY"), Known),
    of("sslpassword", None, Unsupported(KEY)),
    of("sslcrl", Some("PGSSLCRL"), Known),
    of("sslcrldir", Some("PGSSLCRLDIR"), Known),
    of("sslkeylogfile", None, Unsupported("leave it out")),
    of(
        "ssl_min_protocol_version",
        Some("PGSSLMINPROTOCOLVERSION"),
        Known,
    ),
    of(
        "ssl_max_protocol_version",
        Some("PGSSLMAXPROTOCOLVERSION"),
        Known,
    ),
    of(
        "min_protocol_version",
        Some("PGMINPROTOCOLVERSION"),
        Only(&["3.0"]),
    ),
    of(
        "max_protocol_version",
        Some("PGMAXPROTOCOLVERSION"),
        Only(&["3.0", "3.2", "latest"]),
    ),
    of("replication", None, Only(&["false", "off", "no", "0"])),
    of(
        "requirepeer",
        Some("PGREQUIREPEER"),
        Unsupported(AUTHENTICATION),
    ),
    of(
        "require_auth",
        Some("PGREQUIREAUTH"),
        Unsupported(AUTHENTICATION),
    ),
    of("scram_client_key", None, Unsupported(AUTHENTICATION)),
    of("scram_server_key", None, Unsupported(AUTHENTICATION)),
    of("oauth_issuer", None, Unsupported(AUTHENTICATION)),
    of("oauth_client_id", None, Unsupported(AUTHENTICATION)),
    of("oauth_client_secret", None, Unsupported(AUTHENTICATION)),
    of("oauth_scope", None, Unsupported(AUTHENTICATION)),
];
