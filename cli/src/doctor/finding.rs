//! A finding: its level, its subject and its cure.

use std::fmt;

use clap::builder::styling::{AnsiColor, Style};

use crate::human::database_word;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know.
    Notice,
    /// It will fail, or may.
    Warning,
    /// Something fails now, or ids may be in use already.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
        })
    }
}

impl Level {
    /// How it is written on a terminal.
    pub fn style(self) -> Style {
        match self {
            Level::Notice => Style::new().dimmed(),
            Level::Warning => AnsiColor::Yellow.on_default().bold(),
            Level::Error => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// Its subject, such as a tag.
    pub subject: String,
    pub text: String,
    pub cure: String,
}

/// How many tags of a finding are named.
const NAMED: usize = 3;

impl Finding {
    /// The text before the word "tag" in the subject, and the name of the tag, if it is one.
    fn tag(&self) -> Option<(&str, &str)> {
        let (before, name) = self.subject.split_once("tag \"")?;
        Some((before, name.strip_suffix('"')?))
    }

    /// The same of several tags, whose names are given.
    fn of_tags(self, tags: &[&str]) -> Finding {
        if tags.len() < 2 {
            return self;
        }
        let before = self.tag().map_or("", |(before, _)| before);
        let named = tags[..tags.len().min(NAMED)].join(", ");
        let more = if tags.len() > NAMED { ", ..." } else { "" };
        Finding {
            subject: format!("{before}{} tags ({named}{more})", tags.len()),
            cure: format!("{}; the same for the others", self.cure),
            ..self
        }
    }

    /// The same among those of several databases.
    fn of_database(self, database: &str) -> Finding {
        let name = database_word(database);
        Finding {
            subject: format!("{database}: {}", self.subject),
            // Once: the name of a tag can have the same words.
            cure: (self.cure).replacen("leafctl tags ", &format!("leafctl tags -d {name} "), 1),
            ..self
        }
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn error(&mut self, subject: &str, text: impl Into<String>, cure: impl Into<String>) {
        self.add(Level::Error, subject, text.into(), cure.into());
    }

    pub fn warning(&mut self, subject: &str, text: impl Into<String>, cure: impl Into<String>) {
        self.add(Level::Warning, subject, text.into(), cure.into());
    }

    pub fn notice(&mut self, subject: &str, text: impl Into<String>, cure: impl Into<String>) {
        self.add(Level::Notice, subject, text.into(), cure.into());
    }

    pub fn add(&mut self, level: Level, subject: &str, text: String, cure: String) {
        self.0.push(Finding {
            level,
            subject: subject.to_owned(),
            text,
            cure,
        });
    }

    pub fn append(&mut self, mut findings: Findings) {
        self.0.append(&mut findings.0);
    }

    /// Adds what was found in a database, with its name; what is the server's, once.
    pub fn of_database(&mut self, database: &str, findings: Findings) {
        for finding in findings.0 {
            let is_of_server = ["server", "worker slots"].contains(&&*finding.subject);
            let finding = match is_of_server {
                true => finding,
                false => finding.of_database(database),
            };
            if !self.0.contains(&finding) {
                self.0.push(finding);
            }
        }
    }

    /// The worst last, where a reader looks first.
    pub fn sort(&mut self) {
        self.0.sort_by_key(|finding| finding.level);
    }

    /// The same, with one finding for all tags of which the same was found.
    pub fn merged(&self) -> Findings {
        let mut merged: Vec<(Finding, Vec<&str>)> = Vec::new();
        for finding in &self.0 {
            let parts = finding.tag();
            let same = merged.iter_mut().find(|(it, _)| {
                let of = |it: &Finding| it.tag().map(|(before, _)| before.to_owned());
                parts.is_some()
                    && (it.level, &it.text) == (finding.level, &finding.text)
                    && of(it) == of(finding)
            });
            let tag = parts.map(|(_, tag)| tag);
            match same {
                Some((_, tags)) => tags.extend(tag),
                None => merged.push((finding.clone(), tag.into_iter().collect())),
            }
        }
        Findings(
            merged
                .into_iter()
                .map(|(it, tags)| it.of_tags(&tags))
                .collect(),
        )
    }

    /// How many there are of each level, the worst first; empty if there are none.
    pub fn counts(&self) -> String {
        let levels = [Level::Error, Level::Warning, Level::Notice];
        let counts = levels.map(|level| {
            let count = self.0.iter().filter(|it| it.level == level).count();
            match count {
                0 => String::new(),
                1 => format!("1 {level}"),
                _ => format!("{count} {level}s"),
            }
        });
        let counts: Vec<_> = counts.into_iter().filter(|it| !it.is_empty()).collect();
        counts.join(", ")
    }

    pub fn leave_out_notices(&mut self) {
        self.0.retain(|finding| finding.level > Level::Notice);
    }

    pub fn worst(&self) -> Option<Level> {
        self.0.iter().map(|finding| finding.level).max()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cure_of_a_database_stays_safe_to_copy() {
        let mut of_one = Findings::default();
        of_one.error("tag", "text", "leafctl tags align 'a leafctl tags b'");
        let mut all = Findings::default();
        all.of_database("$(id)", of_one);
        let cure = "leafctl tags -d '$(id)' align 'a leafctl tags b'";
        assert_eq!(all.0[0].cure, cure);
    }
}
