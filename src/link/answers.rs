//! What the answers of the centre mean. All of them are checked here.

use leaf_core::Run;
use leaf_core::snowflake::Terms;
use leaf_core::time::WallTime;
use uuid::Uuid;

use super::failure::{Answer, Failure};
use super::libpq::Outcome;
use crate::shmem::text::Text;
use crate::shmem::upstream::{Address, Demand, Denial, Registry, Reply};

/// What the outcome of a statement means for each of its requests.
pub fn answers(demands: &[Demand], outcome: &Outcome, place: Address) -> Vec<Answer> {
    let all = |answer: &dyn Fn(&Demand) -> Failure| -> Vec<Answer> {
        demands.iter().map(|demand| Err(answer(demand))).collect()
    };
    match outcome {
        Outcome::Rows(rows) if rows.len() == demands.len() => {
            let each = demands.iter().zip(rows);
            each.map(|(demand, row)| answer(demand, row, place))
                .collect()
        }
        Outcome::Rows(_) | Outcome::Sync => {
            let cause = "the answer does not have a row for each request";
            all(&|_| Failure::new(Denial::Refused, cause))
        }
        Outcome::Error { code, message } => {
            all(&|demand| Failure::new(denial_of(demand, code), message.as_str()))
        }
    }
}

fn answer(demand: &Demand, row: &[String], place: Address) -> Answer {
    reply(demand, row, place).unwrap_or_else(|| {
        let cause = format!("unexpected answer {row:?}");
        Err(Failure::new(Denial::Refused, cause))
    })
}

/// What an SQLSTATE of the centre means to those who wait.
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

/// What is in an answer, which must be what was asked for; `None` if it is not.
fn reply(demand: &Demand, row: &[String], place: Address) -> Option<Answer> {
    match *demand {
        Demand::Numbers { count, exact, .. } => {
            let [first, last, incarnation, sqlstate, message] = row else {
                return None;
            };
            if !sqlstate.is_empty() {
                let denial = denial_of(demand, sqlstate);
                return Some(Err(Failure::new(denial, message.as_str())));
            }
            granted(count, exact, [first, last, incarnation]).map(Ok)
        }
        Demand::Register { nonce, .. } => leased(nonce, row, place),
        Demand::Renew { .. } => {
            let [token, ceiling, registry @ ..] = row else {
                return None;
            };
            Some(Ok(Reply::Renewed {
                token: token.parse().ok()?,
                ceiling: instant(ceiling)?,
                from: registry_of(registry, place)?,
            }))
        }
    }
}

fn leased(nonce: [u8; 16], row: &[String], place: Address) -> Option<Answer> {
    let [
        worker_id,
        of_nonce,
        token,
        start_at,
        ceiling,
        layout,
        epoch,
        registry @ ..,
    ] = row
    else {
        return None;
    };
    if of_nonce.parse::<Uuid>().ok()?.into_bytes() != nonce {
        return None;
    }
    let (start_at, ceiling) = (instant(start_at)?, instant(ceiling)?);
    let (epoch, worker_id) = (instant(epoch)?, worker_id.parse().ok()?);
    let terms = match Terms::read(worker_id, layout, epoch, start_at, ceiling) {
        Ok(terms) => terms,
        Err(bad) => return Some(Err(Failure::new(Denial::Refused, bad.to_string()))),
    };
    Some(Ok(Reply::Leased {
        nonce,
        token: token.parse().ok()?,
        terms,
        from: registry_of(registry, place)?,
    }))
}

/// Which registry has answered. The link knows the number of the connection.
fn registry_of(row: &[String], address: Address) -> Option<Registry> {
    let [incarnation, history] = row else {
        return None;
    };
    Some(Registry {
        incarnation: incarnation.parse::<Uuid>().ok()?.into_bytes(),
        history: Text::of(history),
        address,
        connection: 0,
    })
}

fn instant(us_since_1970: &str) -> Option<WallTime> {
    us_since_1970.parse().ok().map(WallTime::from_unix_us)
}

fn granted(count: u64, exact: bool, row: [&str; 3]) -> Option<Reply> {
    let [first, last, incarnation] = row;
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
