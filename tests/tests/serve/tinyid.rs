//! The addresses of TinyID: the requests of its README and of its Java client, and their answers.

use leaf_tests::{Ledger, Serve, Server};

const TOKEN: &str = "0f673adf80504e2eaa552f5d791b644c";

/// What TinyID's client does with segments, in other words: it hands out every `delta`th number
/// above `current` up to `max` whose remainder by `delta` is `remainder`; from `loading` on it
/// fetches the next segment, and continues with that when this one is used up.
struct Client<'a> {
    serve: &'a Serve,
    segment: Segment,
    next: Option<Segment>,
}

#[derive(Clone, Copy)]
struct Segment {
    current: i64,
    loading: i64,
    max: i64,
    delta: i64,
    remainder: i64,
    is_aligned: bool,
}

impl Segment {
    /// As the client asks: with POST, without a body, and the parameters in the address.
    fn fetch(serve: &Serve) -> Segment {
        let path = format!("/tinyid/id/nextSegmentIdSimple?token={TOKEN}&bizType=orders");
        let answer = serve.post(&path, "");
        assert_eq!(answer.status, 200);
        let fields: Vec<i64> = answer
            .body
            .split(',')
            .map(|field| field.parse().expect("a number"))
            .collect();
        let [current, loading, max, delta, remainder] = fields[..] else {
            panic!("{}", answer.body);
        };
        Segment {
            current,
            loading,
            max,
            delta,
            remainder,
            is_aligned: false,
        }
    }

    /// Moves to the place from which the first step leads to a number with the right remainder.
    fn align(&mut self) {
        if std::mem::replace(&mut self.is_aligned, true)
            || self.current % self.delta == self.remainder
        {
            return;
        }
        let is_aligned = |number: &i64| number % self.delta == self.remainder;
        let first = (self.current + 1..=self.current + self.delta).find(is_aligned);
        self.current = first.expect("one of them has it") - self.delta;
    }

    fn next(&mut self) -> Option<i64> {
        self.align();
        self.current += self.delta;
        (self.current <= self.max).then_some(self.current)
    }
}

impl Client<'_> {
    fn start(serve: &Serve) -> Client<'_> {
        Client {
            serve,
            segment: Segment::fetch(serve),
            next: None,
        }
    }

    fn next(&mut self) -> i64 {
        loop {
            if let Some(id) = self.segment.next() {
                if id >= self.segment.loading && self.next.is_none() {
                    self.next = Some(Segment::fetch(self.serve));
                }
                return id;
            }
            self.segment = self
                .next
                .take()
                .unwrap_or_else(|| Segment::fetch(self.serve));
        }
    }
}

#[test]
fn segments_give_its_client_no_id_twice_and_none_that_is_another_ones() {
    let (server, mut client) = Server::with_orders(700);
    let serve = Serve::start(&server, &["--tinyid-segment=100"]);
    let mut ledger = Ledger::new();
    let (mut one, mut other) = (Client::start(&serve), Client::start(&serve));
    for round in 0..3_000 {
        ledger.add([one.next(), other.next()]);
        if round % 7 == 0 {
            ledger.add(serve.ids("orders", 3));
            ledger.add([leaf_tests::Draw::next(&mut client, "orders").expect("an id")]);
        }
    }
    assert!(ledger.len() > 6_000);
}

#[test]
fn answers_are_those_of_its_readme() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    let first = serve.get(&format!("/tinyid/id/nextId?bizType=orders&token={TOKEN}"));
    assert_eq!(first.body, r#"{"data":[1],"code":200,"message":""}"#);
    let simple = format!("/tinyid/id/nextIdSimple?bizType=orders&token={TOKEN}");
    assert_eq!(serve.get(&simple).body, "2");
    assert_eq!(
        serve.get(&format!("{simple}&batchSize=10")).body,
        "3,4,5,6,7,8,9,10,11,12"
    );
    assert_eq!(
        serve
            .post("/tinyid/id/nextIdSimple", "bizType=orders&batchSize=2")
            .body,
        "13,14"
    );
    assert_eq!(serve.get(&format!("{simple}&batchSize=0")).body, "");
    assert_eq!(serve.get(&format!("{simple}&batchSize=x")).status, 400);
    let segment = serve.get("/tinyid/id/nextSegmentId?bizType=orders").json();
    assert_eq!(segment["code"], 200);
    let data = &segment["data"];
    let number = |name: &str| data[name].as_i64().expect("a number");
    assert_eq!(number("maxId") - number("currentId"), 1000);
    assert_eq!(number("loadingId") - number("currentId"), 200);
    assert_eq!((number("delta"), number("remainder")), (1, 0));
}

#[test]
fn batch_is_cut_to_the_largest_that_is_allowed() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--max-count=5"]);
    let answer = serve
        .get("/tinyid/id/nextId?bizType=orders&batchSize=1000000")
        .json();
    assert_eq!(answer["data"].as_array().map(Vec::len), Some(5));
}

#[test]
fn errors_have_its_codes_with_status_200() {
    let (server, _) = Server::with_orders(1000);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens");
    let text = format!(
        "[[token]]\nname = \"shop\"\ntoken = \"{TOKEN}\"\ntags = [\"orders\", \"nothing\"]\n"
    );
    std::fs::write(&file, text).expect("a file");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("its mode");
    let serve = Serve::start(&server, &["--tokens", file.to_str().expect("text")]);
    for wrong in ["", "&token=wrong", "&token=wrong&batchSize=2"] {
        let answer = serve.get(&format!("/tinyid/id/nextId?bizType=orders{wrong}"));
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.body,
            r#"{"data":null,"code":5,"message":"token is error"}"#
        );
        let simple = serve.get(&format!("/tinyid/id/nextIdSimple?bizType=orders{wrong}"));
        assert_eq!((simple.status, simple.body.as_str()), (200, ""));
    }
    let right = |path: &str, tag: &str| {
        serve.get(&format!("/tinyid/id/{path}?bizType={tag}&token={TOKEN}"))
    };
    assert_eq!(right("nextId", "orders").json()["data"][0], 1);
    let unknown = right("nextId", "nothing");
    assert_eq!(
        (unknown.status, unknown.json()["code"].as_i64()),
        (200, Some(6))
    );
    assert!(unknown.json()["data"].is_null());
    let simple = right("nextSegmentIdSimple", "nothing");
    assert_eq!((simple.status, simple.body.as_str()), (200, ""));
    assert_eq!(right("nextId", "other").json()["code"], 5);
}
