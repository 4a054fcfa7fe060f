//! The built book in a browser: every page at the width of a desk and of a phone. Its links
//! lead to files and headings of the book, it requests nothing from elsewhere, and nothing is
//! wider than the page.
//!
//! With `LEAF_TEST_SCREENSHOTS`, each page is kept as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use leaf_tests::Browser;
use leaf_tests::page::root;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

/// Pages that mdBook makes besides the chapters.
const OF_MDBOOK: [&str; 3] = ["404.html", "print.html", "toc.html"];

/// What a page has.
#[derive(Deserialize)]
struct Seen {
    title: String,
    headings: Vec<String>,
    /// Addresses of links, pictures, styles and scripts.
    targets: Vec<String>,
    ids: BTreeSet<String>,
    /// Pictures that were not loaded.
    broken: Vec<String>,
    /// Pictures without a text for those who do not see them.
    unnamed: Vec<String>,
}

const LOOK: &str = "(() => {
    const all = selector => [...document.querySelectorAll(selector)];
    const pictures = all('main img');
    return {
        title: document.title,
        headings: all('main h1').map(it => it.innerText),
        targets: all('a[href]').map(it => it.href).concat(all('[src]').map(it => it.src),
                 all('link[href]').map(it => it.href)),
        ids: all('[id]').map(it => it.id),
        broken: pictures.filter(it => !it.complete || !it.naturalWidth).map(it => it.src),
        unnamed: pictures.filter(it => !it.alt).map(it => it.src),
    };
})()";

/// What of the text is wider than its page. Tables and code scroll in boxes of their own.
const WIDER: &str = "(() => {
    const main = document.querySelector('main');
    for (let box = main; box; box = box.parentElement) {
        if (box.scrollWidth > box.clientWidth + 1) {
            const right = box.getBoundingClientRect().left + box.clientWidth + 1;
            const first = [...main.querySelectorAll('*')].find(it => it.getBoundingClientRect().right > right);
            return `${box.scrollWidth} of ${box.clientWidth} pixels: ${first ? first.outerHTML.slice(0, 100) : ''}`;
        }
    }
    return '';
})()";

/// Drawings that are shown smaller than they are, so that their texts are hard to read.
const SHRUNK: &str = "[...document.querySelectorAll('main img[src*=\"drawings/\"]')]
    .filter(it => it.width < it.naturalWidth).map(it => `${it.src}: ${it.width} of ${it.naturalWidth}`).join(', ')";

/// Plots, and how large each is shown, by how large it is.
const PLOTS: &str = "[...document.querySelectorAll('main img[src*=\"plots/\"]')]
    .map(it => [it.src, it.width / it.naturalWidth])";

/// Tables that have more to the right, without a sign of it, or with a first column that does not stay.
const HIDDEN: &str = "[...document.querySelectorAll('main .table-wrapper')]
    .filter(box => box.scrollWidth > box.clientWidth + 1)
    .filter(box => {
        const has_sign = getComputedStyle(box).maskImage != 'none';
        box.scrollLeft = box.scrollWidth;
        const edge = box.getBoundingClientRect().left - 1;
        const stays = [...box.querySelectorAll('tr > :first-child')]
            .every(it => it.getBoundingClientRect().left >= edge);
        box.scrollLeft = 0;
        return !has_sign || !stays;
    })
    .map(box => box.innerText.slice(0, 60)).join('; ')";

/// Words of headings that are broken.
const BROKEN: &str = "(() => {
    const broken = [];
    for (const heading of document.querySelectorAll('main :is(h1, h2, h3, h4)')) {
        const texts = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/\\w+/g)) {
                const range = document.createRange();
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                const lines = new Set([...range.getClientRects()].map(it => it.top));
                if (lines.size > 1) broken.push(word[0]);
            }
        }
    }
    return broken.join(', ');
})()";

/// The size in pixels that texts of a plot must have, so that they can be read.
const LEGIBLE: f64 = 11.0;

/// The size of the smallest text of a plot.
fn smallest_text(plot: &Path) -> f64 {
    let drawing = fs::read_to_string(plot).expect("a plot");
    let sizes = drawing.split("font-size=\"").skip(1);
    let sizes = sizes.filter_map(|rest| rest.split_once('"')?.0.parse().ok());
    sizes.fold(f64::INFINITY, f64::min)
}

fn build() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let built = Command::new(root().join("scripts/book"))
        .arg(folder.path())
        .output()
        .expect("scripts/book");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    folder
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<_> = paths
        .flat_map(|path| match path.is_dir() {
            true => pages(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|it| it == "html"))
        .filter(|path| !OF_MDBOOK.iter().any(|name| path.ends_with(name)))
        .collect();
    pages.sort();
    pages
}

/// What an event says that should not be, if it does.
fn complaint(event: &Value, home: &str) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(params.to_string()),
        "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params.to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params.to_string()),
        "Network.requestWillBeSent" => {
            let url = params["request"]["url"].as_str()?;
            let is_own = url.starts_with(home) || url.starts_with("data:");
            (!is_own).then(|| format!("it requests {url}"))
        }
        _ => None,
    }
}

/// A screen: its name, its width, and whether it is dark. The book opens its list of chapters by
/// the width at which it is loaded.
type Screen = (&'static str, u32, bool);

const SCREENS: [Screen; 2] = [("phone", 390, true), ("desk", 1280, false)];

/// Looks at a page; adds what is wrong.
fn look(
    browser: &mut Browser,
    (view, width, is_dark): Screen,
    home: &str,
    url: &str,
    wrong: &mut Vec<String>,
) -> Seen {
    let name = url.trim_start_matches(home).trim_start_matches('/');
    let picture = name.trim_end_matches(".html").replace('/', "-");
    let mut add = |what: String| wrong.push(format!("{name}: {what}"));
    browser.view(width, is_dark);
    browser.go(url);
    let wider = browser.value(WIDER);
    if wider != "" {
        add(format!("at {width} pixels, it is wider: {wider}"));
    }
    for (script, what) in [
        (SHRUNK, "a drawing is shrunk"),
        (HIDDEN, "of a table, one does not see what there is"),
        (BROKEN, "words of headings are broken"),
    ] {
        let found = browser.value(script);
        if found != "" {
            add(format!("at {width} pixels, {what}: {found}"));
        }
    }
    let plots: Vec<(String, f64)> =
        serde_json::from_value(browser.value(PLOTS)).expect("plots and their scales");
    for (plot, scale) in plots {
        let size = smallest_text(Path::new(plot.trim_start_matches("file://"))) * scale;
        if !(LEGIBLE..100.0).contains(&size) {
            add(format!(
                "at {width} pixels, texts of {plot} have {size:.1} pixels"
            ));
        }
    }
    browser.picture(&format!("{picture}-{view}"));
    let seen: Seen = serde_json::from_value(browser.value(LOOK)).expect("what is seen");
    if seen.title.is_empty() || seen.headings.len() != 1 {
        add(format!(
            "title {:?}, headings {:?}",
            seen.title, seen.headings
        ));
    }
    for source in &seen.broken {
        add(format!("{source} is not loaded"));
    }
    for source in &seen.unnamed {
        add(format!("{source} has no text"));
    }
    for event in browser.events() {
        if let Some(what) = complaint(&event, home) {
            add(what);
        }
    }
    seen
}

#[test]
fn every_page_of_the_book_is_whole_on_a_phone_and_on_a_desk() {
    let folder = build();
    let home = format!("file://{}", folder.path().display());
    let mut browser = Browser::open("about:blank");
    browser.watch();
    let mut wrong = Vec::new();
    let mut all = BTreeMap::new();
    for page in pages(folder.path()) {
        let url = format!("file://{}", page.display());
        for screen in SCREENS {
            let seen = look(&mut browser, screen, &home, &url, &mut wrong);
            all.insert(url.clone(), seen);
        }
    }
    assert!(all.len() > 20, "only {} pages were found", all.len());
    // What is read offline leads to few files that are not in it.
    let on_github = all.values().flat_map(|seen| &seen.targets);
    let on_github = on_github.filter(|target| target.contains("/leaf-pg/leaf/blob/"));
    let on_github: BTreeSet<_> = on_github.collect();
    assert!(on_github.len() < 10, "{on_github:#?}");
    for (url, seen) in &all {
        for target in &seen.targets {
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let Some(path) = file.strip_prefix("file://") else {
                continue;
            };
            if !Path::new(path).is_file() {
                wrong.push(format!("{url}: no {target}"));
            } else if let Some(linked) = all.get(file)
                && !place.is_empty()
                && !linked.ids.contains(place)
            {
                wrong.push(format!("{url}: no heading {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // The index of words is a part of the book, too.
    browser.go(&format!("{home}/index.html?search=ceiling"));
    browser.wait_for("search results for 'ceiling'");
}
