//! The tags that are served: those from which ids were drawn, and why others have none.
//!
//! Callers choose names. A tag is kept once it has given ids, or if it was named at the start; of
//! another one, the reason is remembered for a moment, and new names are asked for at a limited
//! rate. Neither memory nor the number of statements follows what callers make up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leaf_sdk::{Error, IdSource, Leaf, SegmentId, SegmentSource};
use parking_lot::{Mutex, RwLock};

use super::answer::Drawn;
use super::measures::Issued;
use super::problem::{self, Problem};

/// For how long a name that has given no ids is not asked for again.
const REMEMBERED: Duration = Duration::from_secs(2);

/// How many such names are remembered at once.
const MOST_REMEMBERED: usize = 4_096;

/// How many new names are asked for in a second, and how many at once after a pause.
const NEW_PER_SECOND: f64 = 100.0;
const MOST_NEW: f64 = 1_000.0;

/// A tag that is served.
pub struct Served {
    pub source: SegmentSource,
    pub issued: Issued,
}

pub struct Tags {
    leaf: Leaf,
    served: RwLock<HashMap<String, Arc<Served>>>,
    /// The only tags to serve, if they were named at the start.
    named: Option<HashSet<String>>,
    unserved: Mutex<Unserved>,
    /// How long a request waits.
    wait: Duration,
}

/// Names that have given no ids, and how many more may be asked for.
struct Unserved {
    why: HashMap<String, (Problem, Instant)>,
    allowance: f64,
    counted_at: Instant,
}

impl Tags {
    pub fn new(leaf: &Leaf, named: &[String], wait: Duration) -> Tags {
        let unserved = Unserved {
            why: HashMap::new(),
            allowance: MOST_NEW,
            counted_at: Instant::now(),
        };
        let tags = Tags {
            leaf: leaf.clone(),
            served: RwLock::default(),
            named: (!named.is_empty()).then(|| named.iter().cloned().collect()),
            unserved: Mutex::new(unserved),
            wait,
        };
        for name in named {
            tags.serve(name, leaf.segment(name));
        }
        tags
    }

    /// The tags that were named at the start.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.named.iter().flatten().map(String::as_str)
    }

    /// Ids of a tag, ascending.
    pub async fn draw(&self, name: &str, count: usize) -> Result<Drawn<SegmentId>, Problem> {
        let served = self.served(name);
        let is_new = served.is_none();
        if count == 1
            && let Some(tag) = &served
            && let Some(id) = tag.source.try_next()
        {
            tag.issued.add(1);
            return Ok(Drawn::One(id));
        }
        let source = match &served {
            Some(tag) => tag.source.clone(),
            None => self.new_source(name)?,
        };
        match self.wait_for(&source, count).await {
            Ok(drawn) => {
                let tag = served.unwrap_or_else(|| self.serve(name, source));
                tag.issued.add(count);
                Ok(drawn)
            }
            Err(error) => {
                let problem = Problem::from(&error);
                self.failed(name, is_new, problem);
                Err(problem)
            }
        }
    }

    /// The source of a tag from which nobody has drawn yet. If it gives no ids, the library
    /// forgets the tag with its last source.
    fn new_source(&self, name: &str) -> Result<SegmentSource, Problem> {
        let named = self.named.as_ref();
        if named.is_some_and(|named| !named.contains(name)) {
            return Err(problem::NOT_SERVED);
        }
        self.unserved.lock().ask_for(name)?;
        Ok(self.leaf.segment(name))
    }

    async fn wait_for(
        &self,
        source: &SegmentSource,
        count: usize,
    ) -> Result<Drawn<SegmentId>, Error> {
        let drawing = async {
            match count {
                1 => source.next_async().await.map(Drawn::One),
                _ => source.next_n_async(count).await.map(Drawn::Many),
            }
        };
        let timeout = |_| Error::Timeout {
            after: self.wait,
            last: None,
        };
        let drawn = tokio::time::timeout(self.wait, drawing).await;
        drawn.map_err(timeout).flatten()
    }

    /// Waits until ids of a tag are at hand, which is served from then on.
    pub async fn fetch(&self, name: &str) -> Result<(), Error> {
        let source = self.leaf.segment(name);
        source.ready_async().await?;
        self.serve(name, source);
        Ok(())
    }

    pub fn served(&self, name: &str) -> Option<Arc<Served>> {
        self.served.read().get(name).cloned()
    }

    /// All tags that are served, by name.
    pub fn all(&self) -> Vec<(String, Arc<Served>)> {
        let served = self.served.read();
        let each = served.iter();
        let mut all: Vec<_> = each
            .map(|(name, tag)| (name.clone(), tag.clone()))
            .collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    fn serve(&self, name: &str, source: SegmentSource) -> Arc<Served> {
        let mut served = self.served.write();
        let new = || {
            let issued = Issued::of_tag(name);
            Arc::new(Served { source, issued })
        };
        served.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// A tag that the server does not know, or not to this role, is served no more. Why a name
    /// has given no ids is remembered, if it is known.
    fn failed(&self, name: &str, is_new: bool, problem: Problem) {
        let is_lasting = matches!(
            problem,
            problem::UNKNOWN_TAG | problem::BAD_TAG | problem::PERMISSION
        );
        if is_lasting {
            self.served.write().remove(name);
        }
        let is_known = !matches!(problem, problem::NO_IDS | problem::CLOSING);
        if is_lasting || (is_new && is_known) {
            self.unserved.lock().remember(name, problem);
        }
    }
}

impl Unserved {
    /// # Errors
    /// Why the name has just given no ids, or that too many new ones were asked for.
    fn ask_for(&mut self, name: &str) -> Result<(), Problem> {
        if let Some((problem, at)) = self.why.get(name)
            && at.elapsed() < REMEMBERED
        {
            return Err(*problem);
        }
        let earned = self.counted_at.elapsed().as_secs_f64() * NEW_PER_SECOND;
        self.counted_at = Instant::now();
        self.allowance = (self.allowance + earned).min(MOST_NEW);
        if self.allowance < 1.0 {
            return Err(problem::TOO_MANY_NEW_TAGS);
        }
        self.allowance -= 1.0;
        Ok(())
    }

    fn remember(&mut self, name: &str, problem: Problem) {
        if self.why.len() >= MOST_REMEMBERED {
            self.why.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        }
        if self.why.len() < MOST_REMEMBERED {
            self.why.insert(name.to_owned(), (problem, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn name_is_forgotten_if_its_caller_goes_away() {
        let config = leaf_sdk::Config::new("host=/nonexistent user=nobody")
            .expect("a string")
            .retry_between(Duration::from_millis(1), Duration::from_millis(10));
        let leaf = Leaf::new(config).expect("a handle");
        let tags = Arc::new(Tags::new(&leaf, &[], Duration::from_millis(50)));
        {
            // The caller goes after it has been asked once.
            let mut drawing = std::pin::pin!(tags.draw("made up", 1));
            let asked = std::future::poll_fn(|cx| Poll::Ready(drawing.as_mut().poll(cx))).await;
            assert!(asked.is_pending(), "there is no answer yet");
            assert!(leaf.stats().contains_key("made up"));
        }
        let forgotten = async {
            while !leaf.stats().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let forgotten = tokio::time::timeout(Duration::from_secs(60), forgotten).await;
        assert!(
            forgotten.is_ok(),
            "the name is still there: {:?}",
            leaf.stats()
        );
    }

    #[test]
    fn made_up_names_take_bounded_memory_and_are_asked_for_at_a_bounded_rate() {
        let mut unserved = Unserved {
            why: HashMap::new(),
            allowance: MOST_NEW,
            counted_at: Instant::now(),
        };
        let mut asked = 0;
        let began = Instant::now();
        for number in 0..10_000 {
            let name = format!("made up {number}");
            match unserved.ask_for(&name) {
                Ok(()) => {
                    asked += 1;
                    unserved.remember(&name, problem::UNKNOWN_TAG);
                    assert_eq!(unserved.ask_for(&name), Err(problem::UNKNOWN_TAG));
                }
                Err(problem) => assert_eq!(problem, problem::TOO_MANY_NEW_TAGS),
            }
        }
        let most = MOST_NEW + began.elapsed().as_secs_f64() * NEW_PER_SECOND + 1.0;
        assert!(f64::from(asked) <= most, "{asked} names were asked for");
        for number in 0..10_000 {
            unserved.remember(&format!("another {number}"), problem::UNKNOWN_TAG);
        }
        assert!(unserved.why.len() <= MOST_REMEMBERED);
    }
}
