//! Tags: whether ids are left, and whether they come in time.

use jiff::{SignedDuration, Timestamp};

use crate::doctor::finding::Findings;
use crate::human;
use crate::look::{Look, Tag};

/// How much of its numbers a tag may have used, in percent.
const USED: f64 = 80.0;
const NEARLY_USED_UP: f64 = 95.0;
/// How long the ids of a tag should last at least, in seconds.
const SOON: f64 = 30.0 * 86_400.0;
/// How much of its numbers a tag must have used for that to matter, in percent: the rate may
/// be that of a moment.
const MUCH: f64 = 50.0;
/// The largest id of all.
const LARGEST: i64 = i64::MAX - 1;
/// How long ago the last error of a tag is still of interest.
const RECENTLY: SignedDuration = SignedDuration::from_mins(10);
/// Ids of a fed tag should last this long, in seconds, without the centre.
const SMALL_STOCK: f64 = 60.0;

pub fn check(look: &Look, findings: &mut Findings) {
    for tag in &look.tags {
        check_end(tag, findings);
        check_loads(tag, findings);
    }
}

fn check_end(tag: &Tag, findings: &mut Findings) {
    let subject = format!("tag \"{}\"", tag.tag);
    let is_fed = tag.upstream_tag.is_some();
    if has_no_more(tag) {
        let text = match tag.ids_left {
            Some(left) if left > 0 => format!("its last numbers are granted: {left} ids are left"),
            _ => "it has reached its max_value: no ids are left".into(),
        };
        let cure = match room(tag) {
            Some(alter) => format!("{alter}, if the columns have room for larger ids"),
            None => "there are no larger ids: let the columns draw from another tag".into(),
        };
        findings.error(&subject, text, cure);
        return;
    }
    let used = tag.used_percent.unwrap_or_default();
    let left = tag.time_left_seconds.filter(|_| !is_fed);
    let lasts = left.map(|left| format!(", and the rest lasts {}", human::duration(left)));
    let lasts = lasts.unwrap_or_default();
    let text = format!("{used:.1} % of its numbers are used{lasts}");
    let cure = match room(tag) {
        Some(alter) => format!("{alter}; make columns of type integer bigint before"),
        None => "let the columns draw from another tag before".into(),
    };
    let is_soon = used >= MUCH && left.is_some_and(|left| left < SOON);
    if used >= NEARLY_USED_UP {
        findings.error(&subject, text, cure);
    } else if used >= USED || is_soon {
        findings.warning(&subject, text, cure);
    }
}

/// The command that raises the maximum to the largest id, if it is below that.
fn room(tag: &Tag) -> Option<String> {
    let name = human::shell_word(&tag.tag);
    let is_below = |end: Option<i64>| end.is_some_and(|end| end < LARGEST);
    let is_below = is_below(tag.max_value) && is_below(tag.granted_up_to);
    is_below.then(|| format!("leafctl tags alter {name} --max-value={LARGEST}"))
}

/// Whether nothing can be granted any more.
fn has_no_more(tag: &Tag) -> bool {
    // Of a row that cannot be read, because the table is locked, both are unknown.
    let is_last = tag.max_value.is_some() && tag.granted_up_to >= tag.max_value;
    tag.upstream_tag.is_none() && is_last
}

/// Whether nothing is to be loaded: the next segment is there, or not yet due.
fn is_full(tag: &Tag) -> bool {
    tag.next_left > 0 || tag.step > 0 && tag.current_left > tag.step - tag.step / 10
}

fn check_loads(tag: &Tag, findings: &mut Findings) {
    let subject = format!("tag \"{}\"", tag.tag);
    if let (Some(error), Some(at), false) = (&tag.last_error, tag.last_error_at, has_no_more(tag)) {
        let ago = Timestamp::now().duration_since(at);
        let ago_text = human::duration(ago.as_secs_f64());
        if is_full(tag) {
            let text = format!("a load failed {ago_text} ago, and a later one succeeded: {error}");
            let cure = "none is needed; leaf_stat_reset forgets it";
            findings.notice(&subject, text, cure);
        } else {
            let text = format!("its last load failed {ago_text} ago: {error}");
            let cure = "remove the cause; leaf tries again by itself";
            match ago < RECENTLY {
                true => findings.error(&subject, text, cure),
                false => findings.notice(&subject, text, cure),
            }
        }
    }
    if tag.timeouts > 0 {
        let text = format!("{} calls gave up after leaf.wait_timeout", tag.timeouts);
        let cure = "see its last error; once the cause is gone, leaf_stat_reset begins anew";
        findings.warning(&subject, text, cure);
    }
    let lasts = (tag.ids_per_second > 0.0)
        .then(|| (tag.current_left + tag.next_left) as f64 / tag.ids_per_second);
    if tag.upstream_tag.is_some() && lasts.is_some_and(|lasts| lasts < SMALL_STOCK) {
        findings.notice(
            &subject,
            "the ids at hand last less than a minute if the centre is away",
            "raise leaf.segment_duration, or the tag's max_step",
        );
    }
}
