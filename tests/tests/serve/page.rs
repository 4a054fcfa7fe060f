//! The page for people, in a browser: what is seen.

use leaf_tests::{Browser, Draw, Mode, Serve, Server};

/// The least contrast of text that WCAG's level AA allows.
const CONTRAST: f64 = 4.5;

/// The lowest contrast of a text on the page with its background, and the text.
const LOWEST_CONTRAST: &str = r#"(() => {
    const channels = (color) => color.match(/[\d.]+/g).map(Number);
    const light = (color) => {
        const [r, g, b] = channels(color).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        const color = getComputedStyle(element).backgroundColor;
        return channels(color)[3] === 0 ? ground(element.parentElement) : color;
    };
    let lowest = [99, ""];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !element.checkVisibility() || element.tagName === "SCRIPT") continue;
        const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < lowest[0]) lowest = [contrast, element.textContent];
    }
    return lowest;
})()"#;

#[test]
fn page_shows_tags_buffers_and_ids_live() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('<b>items</b>')");
    let serve = Serve::start(&server, &[]);
    serve.ids("orders", 12);
    serve.ids("%3Cb%3Eitems%3C%2Fb%3E", 1);
    let mut browser = Browser::open(&serve.url("/"));
    browser.wait_for("database answers");
    browser.wait_for("orders");
    // A name is a text, whatever it contains.
    browser.wait_for("<b>items</b>");
    let cell = |place: u8| {
        format!("document.querySelector('tr[data-tag=orders]').cells[{place}].innerText")
    };
    let status = serve.get("/v1/status").json();
    let tag = status["tags"]
        .as_array()
        .expect("tags")
        .iter()
        .find(|tag| tag["name"] == "orders");
    let buffered = tag.expect("orders")["buffered"].as_u64().expect("a number");
    let shown = browser
        .value(&cell(1))
        .as_str()
        .expect("a text")
        .replace(',', "");
    assert_eq!(shown.trim(), buffered.to_string());
    assert_eq!(browser.value(&cell(3)), "12");
    serve.ids("orders", 30);
    leaf_tests::wait_until("it is live", || browser.value(&cell(3)) == "42");
    let meter =
        "document.querySelector('tr[data-tag=orders] [role=meter]').getAttribute('aria-valuenow')";
    leaf_tests::wait_until("the bar is live", || {
        browser.value(meter) == *(buffered - 30).to_string()
    });
}

#[test]
fn page_decodes_an_id() {
    let server = Server::start();
    let serve = Serve::start(&server, &[]);
    let id = serve.get("/v1/snowflake").ids()[0].to_string();
    let fields = serve.get(&format!("/v1/decode/{id}")).json();
    let mut browser = Browser::open(&serve.url("/"));
    browser.wait_for("ready");
    browser.submit("id", &id);
    browser.wait_for(fields["created_at"].as_str().expect("a time"));
    browser.wait_for(&format!(
        "by worker {}, sequence {}",
        fields["worker_id"], fields["sequence"]
    ));
    browser.submit("id", "9223372036854775808");
    browser.wait_for("this is not a snowflake id of the database");
}

#[test]
fn page_shows_that_the_database_or_the_server_is_away() {
    let (mut server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--tag=orders", "--wait=200ms"]);
    serve.wait_ready();
    let mut browser = Browser::open(&serve.url("/"));
    browser.wait_for("database answers");
    server.stop(Mode::Fast);
    while serve.get("/v1/segment/orders?count=100").status == 200 {}
    browser.wait_for("not ready");
    browser.wait_for("database does not answer");
    serve.kill();
    browser.wait_for("server does not answer");
}

#[test]
fn page_asks_for_a_token_where_one_is_needed() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens");
    std::fs::write(
        &file,
        "[[token]]\nname = \"me\"\ntoken = \"secret\"\nstatus = true\n",
    )
    .expect("a file");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("its mode");
    let serve = Serve::start(&server, &["--tokens", file.to_str().expect("text")]);
    let mut browser = Browser::open(&serve.url("/"));
    browser.wait_for("A token is needed");
    browser.submit("token", "wrong");
    browser.wait_for("the token is unknown");
    browser.submit("token", "secret");
    browser.wait_for("database answers");
    assert!(!browser.text().contains("A token is needed"));
}

#[test]
fn page_is_readable_in_light_and_dark_and_on_a_phone() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('a-rather-long-name-of-a-tag-as-some-services-have-them.eu-central-1')");
    let serve = Serve::start(&server, &[]);
    serve.ids("orders", 900);
    serve.ids(
        "a-rather-long-name-of-a-tag-as-some-services-have-them.eu-central-1",
        1,
    );
    serve.get("/v1/snowflake?count=10").ids();
    let mut browser = Browser::open(&serve.url("/"));
    browser.wait_for("orders");
    browser.submit("id", &serve.get("/v1/snowflake").ids()[0].to_string());
    browser.wait_for("by worker");
    for (width, is_dark, name) in [
        (1100, false, "light"),
        (1100, true, "dark"),
        (375, false, "phone"),
        (375, true, "phone-dark"),
    ] {
        browser.view(width, is_dark);
        browser.picture(name);
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(
            wide.as_u64() <= Some(u64::from(width)),
            "{name}: {wide} pixels"
        );
        let lowest = browser.value(LOWEST_CONTRAST);
        assert!(lowest[0].as_f64() >= Some(CONTRAST), "{name}: {lowest}");
    }
    let dark = "getComputedStyle(document.body).backgroundColor";
    let (is_dark, _) = (browser.value(dark), browser.view(375, false));
    assert_ne!(browser.value(dark), is_dark);
}

#[test]
fn page_fetches_nothing_from_elsewhere_and_everything_has_a_name() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    serve.ids("orders", 1);
    let policy = serve.get("/");
    let policy = policy.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
        "{policy}"
    );
    let mut browser = Browser::open(&serve.url("/"));
    browser.wait_for("orders");
    let fetched =
        browser.value("performance.getEntriesByType('resource').map((entry) => entry.name)");
    let fetched = fetched.as_array().expect("addresses");
    let here = serve.url("/");
    assert!(!fetched.is_empty());
    for address in fetched {
        assert!(
            address.as_str().expect("a text").starts_with(&here),
            "{address}"
        );
    }
    // Fields have labels, the table has headers, and the keyboard reaches all controls.
    let unnamed =
        "[...document.querySelectorAll('input')].filter((input) => !input.labels.length).length";
    assert_eq!(browser.value(unnamed), 0);
    assert_eq!(
        browser.value("document.querySelectorAll('[tabindex=\"-1\"]').length"),
        0
    );
    assert_eq!(
        browser.value("document.querySelectorAll('thead th[scope=col]').length"),
        7
    );
    assert_eq!(browser.value("document.documentElement.lang"), "en");
}
