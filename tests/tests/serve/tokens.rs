//! The file of tokens: rights, and reading it again.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use leaf_tests::{Serve, Server, Signal, wait_until};
use tempfile::TempDir;

/// The hash is that of `other`.
const TOKENS: &str = r#"
[[token]]
name = "shop"
token = "secret"
tags = ["orders"]

[[token]]
name = "monitoring"
sha256 = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
snowflake = true
status = true
"#;

struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> File {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File {
            path: folder.path().join("tokens.toml"),
            _folder: folder,
        };
        file.write(text);
        fs::set_permissions(&file.path, Permissions::from_mode(0o640)).expect("its mode");
        file
    }

    fn write(&self, text: &str) {
        fs::write(&self.path, text).expect("a file");
    }

    fn option(&self) -> String {
        format!("--tokens={}", self.path.display())
    }
}

fn status(serve: &Serve, path: &str, token: &str) -> (u16, String) {
    let header = format!("Bearer {token}");
    let headers = [("authorization", header.as_str())];
    let headers = if token.is_empty() {
        &[][..]
    } else {
        &headers[..]
    };
    let answer = serve.get_with(path, headers).expect("an answer");
    let code = match answer.status {
        200 => String::new(),
        _ => answer.json()["code"].as_str().expect("a code").to_owned(),
    };
    (answer.status, code)
}

#[test]
fn token_opens_what_the_file_says_and_nothing_else() {
    let (server, mut client) = Server::with_orders(1000);
    leaf_tests::Draw::run(&mut client, "SELECT leaf_tag_create('items')");
    let file = File::new(TOKENS);
    let serve = Serve::start(&server, &[&file.option()]);
    let snowflake = "/v1/decode/0";
    for (path, token, expected, code) in [
        ("/v1/segment/orders", "secret", 200, ""),
        ("/api/segment/get/orders", "secret", 200, ""),
        ("/v1/segment/items", "secret", 403, "token_forbids"),
        // Whether a tag exists is no one's business without the right to it.
        ("/v1/segment/nothing", "secret", 403, "token_forbids"),
        ("/v1/snowflake", "secret", 403, "token_forbids"),
        ("/metrics", "secret", 403, "token_forbids"),
        ("/v1/status", "secret", 403, "token_forbids"),
        ("/v1/segment/orders", "other", 403, "token_forbids"),
        ("/v1/snowflake", "other", 200, ""),
        (snowflake, "other", 200, ""),
        ("/api/snowflake/get/x", "other", 200, ""),
        ("/metrics", "other", 200, ""),
        ("/v1/status", "other", 200, ""),
        ("/v1/segment/orders", "wrong", 401, "token_unknown"),
        ("/v1/segment/orders", "", 401, "token_missing"),
        ("/api/segment/get/orders", "", 401, "token_missing"),
        ("/decodeSnowflakeId?snowflakeId=1", "", 401, "token_missing"),
        ("/v1/status", "", 401, "token_missing"),
        ("/metrics", "", 401, "token_missing"),
        ("/healthz", "", 200, ""),
        ("/readyz", "", 200, ""),
        ("/openapi.json", "", 200, ""),
        ("/", "", 200, ""),
    ] {
        assert_eq!(
            status(&serve, path, token),
            (expected, code.to_owned()),
            "{path} {token}"
        );
    }
    assert_eq!(serve.post("/v1/forget", "").status, 401);
    let missing = serve.get("/v1/segment/orders");
    assert_eq!(missing.header("www-authenticate"), "Bearer");
}

/// A page could have that name point here.
#[test]
fn callers_without_a_token_name_this_machine() {
    let (server, _) = Server::with_orders(1000);
    let anybody = "[[token]]\nname = \"all\"\nanonymous = true\ntags = [\"orders\"]\n";
    let file = File::new(&format!("{TOKENS}{anybody}"));
    let serve = Serve::start(&server, &[&file.option()]);
    let status = |headers: &[(&str, &str)]| {
        let answer = serve.get_with("/v1/segment/orders", headers);
        answer.expect("an answer").status
    };
    let (own, foreign) = (("host", "localhost"), ("host", "evil.example.com"));
    let token = ("authorization", "Bearer secret");
    assert_eq!(status(&[own]), 200);
    assert_eq!(status(&[foreign]), 421);
    assert_eq!(status(&[foreign, token]), 200);
}

#[test]
fn file_is_read_again_on_sighup_and_a_wrong_one_is_not_taken() {
    let (server, _) = Server::with_orders(1000);
    let file = File::new(TOKENS);
    let serve = Serve::start(&server, &[&file.option()]);
    let is_open = |token| status(&serve, "/v1/segment/orders", token).0 == 200;
    assert!(is_open("secret"));
    file.write(&TOKENS.replace("\"secret\"", "\"changed\""));
    assert!(!is_open("changed"));
    serve.signal(Signal::SIGHUP);
    wait_until("the new token is taken", || is_open("changed"));
    assert!(!is_open("secret"));
    file.write("token = 1");
    serve.signal(Signal::SIGHUP);
    wait_until("the wrong file is noticed", || {
        serve.log().contains("earlier tokens are kept")
    });
    assert!(is_open("changed"));
    assert!(!serve.log().contains("secret"), "{}", serve.log());
}

#[test]
fn file_to_which_everybody_has_access_is_refused_with_a_hint() {
    let server = Server::start();
    let file = File::new(TOKENS);
    for mode in [0o644, 0o602, 0o601] {
        fs::set_permissions(&file.path, Permissions::from_mode(mode)).expect("its mode");
        // It ends in any case: what it reads next is not there.
        let options = [&file.option(), "--tls-cert=/nowhere", "--tls-key=/nowhere"];
        let refused = Serve::command(&server.connection_string(), &options)
            .output()
            .expect("leafctl");
        assert_eq!(refused.status.code(), Some(2), "{mode:o}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            said.contains("chmod o=") && said.lines().count() == 1,
            "{said}"
        );
    }
}
