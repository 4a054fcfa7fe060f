//! The meaning of the answers of the centre. All of them are checked here.

use leaf_core::Run;
use leaf_core::snowflake::request;
use uuid::Uuid;

use super::failure::Failure;
use super::message::{Answer, Demand, Registry, Reply};
use crate::pg::libpq::Outcome;
use crate::shmem::upstream::Denial;

/// Where an answer is from.
pub struct Place {
    /// As in [`Registry::address`].
    pub address: String,
    /// The number of the connection.
    pub connection: u64,
}

/// The meaning of the outcome of a statement for each of its requests.
pub fn answers(demands: &[Demand], outcome: &Outcome, place: &Place) -> Vec<Answer> {
    let all = |answer: &dyn Fn(&Demand) -> Failure| -> Vec<Answer> {
        demands.iter().map(|demand| Err(answer(demand))).collect()
    };
    match outcome {
        Outcome::Rows(rows) if rows.len() == demands.len() => {
            let each = demands.iter().zip(rows);
            each.map(|(demand, row)| answer(demand, row, place))
                .collect()
        }
        Outcome::Rows(_) | Outcome::Sync { .. } => {
            let cause = "the answer does not have a row for each request";
            all(&|_| Failure::new(Denial::Refused, cause))
        }
        Outcome::Error { code, message } => {
            all(&|demand| Failure::new(denial_of(demand, code), message.as_str()))
        }
    }
}

fn answer(demand: &Demand, row: &[String], place: &Place) -> Answer {
    if demand.is_of_tag()
        && let [.., sqlstate, message] = row
        && !sqlstate.is_empty()
    {
        let denial = denial_of(demand, sqlstate);
        return Err(Failure::new(denial, message.as_str()));
    }
    let unexpected = |bad| Failure::new(Denial::Refused, format!("unexpected answer: {bad}"));
    reply(demand, row, place).map_err(unexpected)
}

/// The meaning of an SQLSTATE of the centre to those who wait.
fn denial_of(demand: &Demand, code: &str) -> Denial {
    let is_of_tag = demand.is_of_tag();
    match code {
        "42704" if is_of_tag => Denial::Missing,
        "2200H" => Denial::Exhausted,
        "53400" if !is_of_tag => Denial::Exhausted,
        "58000" if !is_of_tag => Denial::Clock,
        "55000" if matches!(demand, Demand::Renew { .. }) => Denial::LeaseLost,
        // No lock, or cancelled.
        "55P03" | "57014" => Denial::Busy,
        // A standby; or a connection that was lost, a server that is shut down, or has no
        // resources.
        "25006" | "" => Denial::Away,
        code if ["08", "57", "53"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            Denial::Away
        }
        _ => Denial::Refused,
    }
}

/// The content of an answer, which must be what was asked for.
fn reply(demand: &Demand, row: &[String], place: &Place) -> Result<Reply, String> {
    let of_registry = |identity| Registry {
        identity,
        address: place.address.clone(),
        connection: place.connection,
    };
    match *demand {
        Demand::Numbers { count, exact, .. } => {
            granted(count, exact, row).ok_or_else(|| format!("{row:?}"))
        }
        Demand::Register { nonce, .. } => {
            let held = request::leased(row).map_err(|bad| bad.to_string())?;
            if held.nonce != nonce {
                return Err(format!("{row:?}"));
            }
            Ok(Reply::Leased {
                nonce,
                token: held.token,
                terms: held.terms,
                from: of_registry(held.registry),
            })
        }
        Demand::Renew { .. } => {
            let renewal = request::renewed(row).map_err(|bad| bad.to_string())?;
            Ok(Reply::Renewed {
                token: renewal.token,
                ceiling: renewal.ceiling,
                from: of_registry(renewal.registry),
            })
        }
    }
}

fn granted(count: u64, exact: bool, row: &[String]) -> Option<Reply> {
    let [first, last, incarnation, ..] = row else {
        return None;
    };
    let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
    let len = last.checked_sub(first)?.checked_add(1)?;
    let len = u64::try_from(len).ok()?;
    let is_asked = match (count, exact) {
        (0, _) => len == 0,
        (count, true) => len == count,
        (count, false) => (1..=count).contains(&len),
    };
    let incarnation = incarnation.parse::<Uuid>().ok()?.into_bytes();
    is_asked.then_some(Reply::Granted {
        run: Run { first, len },
        incarnation,
    })
}
