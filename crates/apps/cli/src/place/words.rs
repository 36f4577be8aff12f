//! Phrases for placements and times, shared by terminal, page and JSON.

use super::answer::Answer;
use idlewave_network::{Estimate, Limiting, Network, Predicted};
use idlewave_place::{Advised, Candidate, MemoryVerdict, Order, Selection};
use idlewave_run::findings::Estimate as Interval;
use idlewave_units::show;

/// How a placement was found.
pub fn how(candidate: &Candidate) -> String {
    let nodes = match candidate.how.selection {
        Selection::First => "first nodes",
        Selection::Pack => "fewest leaf switches",
        Selection::Spread => "spread over leaf switches",
        Selection::Greedy => "least loaded nodes",
    };
    let order = match candidate.how.order {
        Order::Block => "blocks of ranks",
        Order::Cyclic => "ranks in turn",
        Order::Mapped => "ranks by communication",
        Order::Scotch => "ranks as Scotch maps them",
        Order::Given => return "as given".to_owned(),
    };
    let improved = if candidate.how.improved {
        ", improved by swaps"
    } else {
        ""
    };
    format!("{nodes}, {order}{improved}")
}

/// What limits a time.
pub fn limit(estimate: &Estimate, network: &Network) -> String {
    match estimate.limit {
        Limiting::Compute => "computation".to_owned(),
        Limiting::Overhead => "overhead of messages".to_owned(),
        Limiting::Latency => "latency".to_owned(),
        Limiting::Message => "rate of one message".to_owned(),
        Limiting::Resource(resource) => network.describe(resource),
    }
}

/// The interval of a predicted time.
pub fn interval(predicted: &Predicted) -> Interval {
    Interval {
        value: predicted.value,
        low: predicted.low,
        high: predicted.high,
        n: 1,
        method:
            "one simulation; ranges of the parameters and misfit of the model to first order, 95 %"
                .to_owned(),
    }
}

/// How the rank orders from Scotch compare; `None` if Scotch was not used.
pub fn scotch(answer: &Answer<'_>) -> Option<String> {
    let advice = answer.advice;
    let best = &advice.rows[advice.best];
    let by_scotch = |row: &&Advised| row.candidate.how.order == Order::Scotch;
    let taken = by_scotch(&best);
    let exceeds = |row: &Advised| matches!(row.candidate.memory, MemoryVerdict::Exceeds { .. });
    // Like the best one, choose among those that fit into memory, if any do.
    let rows = advice
        .rows
        .iter()
        .filter(|row| exceeds(best) || !exceeds(row));
    let others = rows.filter(|row| by_scotch(row) != taken);
    let seconds = |row: &Advised| row.estimate.seconds.value;
    let next = others.min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let takes = |row: &Advised| {
        let ratio = seconds(row) / seconds(best).max(f64::MIN_POSITIVE);
        format!(
            "takes {}, {} as long",
            show::seconds(seconds(row)),
            show::factor(ratio)
        )
    };
    answer.scotch.then(|| match (taken, next) {
        (true, None) => "the order of ranks is Scotch's".to_owned(),
        (true, Some(row)) => format!(
            "the order of ranks is Scotch's; the fastest other one {}",
            takes(row)
        ),
        (false, Some(row)) => format!("the fastest order by Scotch {}", takes(row)),
        (false, None) if advice.left_out > 0 => {
            "no order by Scotch was worth simulating".to_owned()
        }
        (false, None) => "Scotch's orders are the same as those of the search".to_owned(),
    })
}
