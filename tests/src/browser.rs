//! A headless Chromium, told what to do over the DevTools protocol: what is seen of a page.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wait_until;

/// A browser with one page; ended when it is dropped.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    /// What it has told since [`Browser::events`] was called last.
    told: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// A browser that shows this address.
    pub fn open(url: &str) -> Browser {
        let profile = tempfile::tempdir().expect("a folder");
        // It reads commands from descriptor 3 and answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1", "sh", "chromium"])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("--disable-dev-shm-usage")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromium");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut browser = Browser {
            child,
            to,
            from,
            session: None,
            sent: 0,
            told: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}));
        browser.call("Page.navigate", json!({ "url": url }));
        browser
    }

    /// Tells from now on what the page requests and what it writes to the console.
    pub fn watch(&mut self) {
        for domain in ["Network", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Shows another address, and waits until it is loaded.
    pub fn go(&mut self, url: &str) {
        let moved = self.call("Page.navigate", json!({ "url": url }));
        assert!(moved["errorText"].is_null(), "{url}: {moved}");
        wait_until(&format!("{url} is loaded"), || {
            self.value("document.readyState") == "complete"
        });
    }

    /// What the page has told since the last call: events of the DevTools protocol.
    pub fn events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.told)
    }

    /// How wide the page is, in CSS pixels, and whether dark colours are preferred.
    pub fn view(&mut self, width: u32, is_dark: bool) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let evaluate =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", evaluate);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// What a person reads on the page.
    pub fn text(&mut self) -> String {
        self.value("document.body?.innerText ?? ''")
            .as_str()
            .expect("a text")
            .to_owned()
    }

    /// Waits until a person reads this on the page.
    pub fn wait_for(&mut self, text: &str) {
        wait_until(&format!("\"{text}\" is seen"), || {
            self.text().contains(text)
        });
    }

    /// Writes into the field of this id, and submits its form.
    pub fn submit(&mut self, id: &str, text: &str) {
        let (id, text) = (json!(id), json!(text));
        self.value(&format!(
            "(() => {{ const field = document.getElementById({id}); field.value = {text}; field.form.requestSubmit(); }})()"
        ));
    }

    /// Keeps a picture of the page in the folder that `LEAF_TEST_SCREENSHOTS` names, if it does.
    pub fn picture(&mut self, name: &str) {
        let Some(folder) = env::var_os("LEAF_TEST_SCREENSHOTS").map(PathBuf::from) else {
            return;
        };
        let answer = self.call(
            "Page.captureScreenshot",
            json!({ "captureBeyondViewport": true }),
        );
        let picture = BASE64_STANDARD.decode(answer["data"].as_str().expect("a picture"));
        fs::write(folder.join(format!("{name}.png")), picture.expect("base64")).expect("a file");
    }

    /// Messages end with a zero byte, in both directions.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("chromium runs");
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).expect("an answer");
            assert_eq!(answer.pop(), Some(0), "{method}: chromium has ended");
            let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.told.push(answer);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
