//! Databases hand out ids, and their tag is changed.

use crate::oracle::{Beginning, How};
use crate::steps::{Touch, Use};
use crate::world::{Kept, Place, World};
use leaf_tests::postgres::error::SqlState;
use leaf_tests::postgres::{self, Client};
use leaf_tests::{Draw, Snowflake};
use std::collections::HashSet;

/// How many numbers a shard gets at once.
const FEED: i64 = 100;

/// The parts of an id of the layout `leaf`: its milliseconds, and its worker id.
fn parts(id: i64) -> (i64, i32) {
    (id >> 22, (id >> 12 & 1_023) as i32)
}

impl World {
    /// The databases of a copy begin lives of their own.
    pub fn settle(&mut self, machine: usize, kept: Vec<Kept>, is_told: bool) {
        for Kept {
            database,
            life,
            entries,
        } in kept
        {
            let mut client = self.session(machine, &database);
            let beginning = Beginning {
                parent: Some((life, entries)),
                is_told,
                floor: self.floor(&mut client),
                workers: worker_ids(&mut client),
            };
            self.note(format!("  s{machine}/{database}: {beginning:?}"));
            let life = self.oracle.begin(beginning);
            self.places.push(Place {
                machine,
                database,
                life,
            });
        }
    }

    /// Where the skip of a row ends that has granted nothing in this history yet.
    fn floor(&self, client: &mut Client) -> i64 {
        let skip = self.history_skip;
        client.number(&format!(
            "SELECT max_id + {skip} * (CASE last_grant WHEN 0 THEN step ELSE last_grant END + largest_reserve)
               FROM leaf.alloc"
        ))
    }

    /// A database hands something out, or says why not.
    pub fn hand_out(&mut self, place: usize, what: Use) -> Result<(), String> {
        let place = self.places[place].clone();
        let mut client = self.session(place.machine, &place.database);
        match what {
            Use::Draw(count) => {
                if let Some(ids) = self.answer(&place, client.rows("orders", count))? {
                    self.oracle.numbers(place.life, How::Drawn, ids)?;
                }
            }
            Use::Block(count) => {
                if let Some(block) = self.answer(&place, client.reserve("orders", count))? {
                    self.oracle.numbers(place.life, How::Drawn, block.ids())?;
                }
            }
            Use::Feed(times) => {
                for _ in 0..times {
                    match client.feed("orders", FEED) {
                        Ok(block) => self.oracle.numbers(place.life, How::Fed, block.ids())?,
                        Err(code) => return self.refusal(&place, &code, "feeds nothing"),
                    }
                }
            }
            Use::Flakes(count) => {
                if let Some(ids) = self.answer(&place, client.snowflake_rows(count))? {
                    self.issued(&place, &ids)?;
                }
            }
            Use::Lease => {
                let node = format!("service {}", self.oracle.entries());
                let lease = client.register(&format!("'{node}', ahead => '10 seconds'"));
                if let Some(lease) = self.answer(&place, lease)? {
                    let (from, to) = (lease.start_at - lease.epoch, lease.ceiling - lease.epoch);
                    self.oracle
                        .used(place.life, &node, lease.worker_id, from, to)?;
                }
            }
        }
        Ok(())
    }

    /// What was answered; nothing if it was refused with a reason.
    fn answer<T>(
        &mut self,
        place: &Place,
        result: Result<T, postgres::Error>,
    ) -> Result<Option<T>, String> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                let code = error.code().map_or("none", SqlState::code).to_owned();
                let text = error
                    .as_db_error()
                    .map(|error| (error.message(), error.detail()));
                self.refusal(place, &code, &format!("{text:?}"))?;
                Ok(None)
            }
        }
    }

    /// Why something was refused: only a standby that confirms nothing holds up a server, and
    /// feeding can be stopped.
    fn refusal(&mut self, place: &Place, code: &str, what: &str) -> Result<(), String> {
        let (machine, database) = (place.machine, &place.database);
        let line = format!("  s{machine}/{database}: {code}, {what}");
        self.note(line.clone());
        let is_expected = code == "55000" && what == "feeds nothing"
            || code == "55P03" && self.is_held_up(machine);
        is_expected.then_some(()).ok_or(line)
    }

    fn issued(&mut self, place: &Place, ids: &[i64]) -> Result<(), String> {
        self.oracle.flakes(place.life, ids)?;
        let parts: Vec<_> = ids.iter().map(|&id| parts(id)).collect();
        for &(at, worker_id) in &parts {
            self.oracle.used(place.life, "server", worker_id, at, at)?;
        }
        Ok(())
    }

    /// Changes a tag; an error changes nothing.
    pub fn touch(&mut self, place: usize, what: Touch) {
        let Place {
            machine,
            database,
            life,
        } = self.places[place].clone();
        let above_all = self.oracle.above_all();
        if matches!(what, Touch::Vouch) && !self.oracle.lacks_nothing(life) {
            return;
        }
        let statements = match what {
            Touch::Row(statements) => statements.to_owned(),
            Touch::Align(above) => format!(
                "INSERT INTO orders SELECT max_id + {above} FROM leaf.alloc ON CONFLICT DO NOTHING;
                 SELECT * FROM leaf_tag_align()"
            ),
            Touch::Vouch => "SELECT leaf_tag_vouch()".to_owned(),
            Touch::Advance => format!(
                "SELECT leaf_tag_alter('orders', advance_to => greatest(max_id, {above_all})) FROM leaf.alloc"
            ),
        };
        match self.session(machine, &database).batch_execute(&statements) {
            Ok(()) if matches!(what, Touch::Advance | Touch::Vouch) => self.oracle.state(life),
            Ok(()) => {}
            Err(error) => {
                let text = error.as_db_error().map(|error| error.message());
                self.note(format!("  s{machine}/{database}: {text:?}"));
            }
        }
    }
}

fn worker_ids(client: &mut Client) -> HashSet<i32> {
    let ids = client.numbers("SELECT worker_id::bigint FROM leaf.worker");
    ids.into_iter().map(|id| id as i32).collect()
}
