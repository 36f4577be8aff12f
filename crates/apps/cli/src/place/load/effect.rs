//! What a load changed: the choice that would have been made without it, and what that would cost
//! under the load.

use super::super::answer::{Answer, Effect};
use super::super::files::names;
use super::super::format::{host_list, time_with_range};
use super::super::words::interval;
use super::Loaded;
use crate::exit::Failure;
use idlewave_network::Predicted;
use idlewave_place::{Advice, Candidate, Job, Subject};
use idlewave_units::counted;
use idlewave_units::show::{factor, seconds};
use serde_json::{Value, json};

/// Judges the choice that was made without the load, and the one with it.
pub fn effect(
    loaded: &Loaded,
    on: &Subject<'_>,
    job: &Job,
    blind: &Advice,
    advice: &Advice,
) -> Result<Effect, Failure> {
    let (of_blind, best) = (&blind.rows[blind.best], &advice.rows[advice.best]);
    let under = on.judge(of_blind.candidate.clone(), job)?;
    let between = match &loaded.ends {
        None => None,
        Some(ends) => {
            let at = |network| -> Result<f64, Failure> {
                let on = Subject { network, ..*on };
                let judged = on.judge(best.candidate.clone(), job)?;
                Ok(judged.estimate.seconds.value)
            };
            Some((at(&ends[0])?, at(&ends[1])?))
        }
    };
    Ok(Effect {
        without: of_blind.estimate.clone(),
        changed: of_blind.candidate.places != best.candidate.places,
        blind: under,
        between,
    })
}

fn what(candidate: &Candidate, answer: &Answer<'_>) -> String {
    let nodes = names(answer.network, candidate);
    let on = match nodes.len() {
        1 => "one node".to_owned(),
        n => format!("each of {n} nodes"),
    };
    let ranks = counted(candidate.ranks_per_node, "rank");
    format!("{ranks} on {on}, {}", host_list(&nodes))
}

/// The effect in sentences.
pub fn lines(effect: &Effect, answer: &Answer<'_>) -> Vec<String> {
    let best = &answer.advice.rows[answer.advice.best];
    let without = seconds(effect.without.seconds.value);
    let mut lines = Vec::new();
    if effect.changed {
        let ratio = effect.blind.estimate.ratio(&best.estimate);
        let under = time_with_range(&effect.blind.estimate.seconds);
        let compared = match effect.blind.estimate.differs_from(&best.estimate) {
            true => format!(
                "{} as long as the placement to take ({} to {})",
                factor(ratio.value),
                factor(ratio.low),
                factor(ratio.high)
            ),
            false => "no significant difference from the placement to take".to_owned(),
        };
        lines.push(format!(
            "the load of other jobs changes the choice: without it, {} would be taken, for {without}",
            what(&effect.blind.candidate, answer)
        ));
        lines.push(format!("under the load that takes {under}: {compared}"));
    } else {
        lines.push(format!(
            "the load of other jobs does not change the choice; without it, the same takes {without}"
        ));
    }
    if let Some((low, high)) = effect.between {
        lines.push(format!(
            "at the lower and upper ends of the load's intervals, the placement to take takes {} and {}",
            seconds(low),
            seconds(high)
        ));
    }
    lines
}

/// The effect as JSON.
pub fn as_json(effect: &Effect, answer: &Answer<'_>) -> Value {
    let best = &answer.advice.rows[answer.advice.best];
    let Predicted { value, low, high } = effect.blind.estimate.ratio(&best.estimate);
    let significant = effect.blind.estimate.differs_from(&best.estimate);
    json!({
        "changed": effect.changed,
        "blind": {
            "ranks_per_node": effect.blind.candidate.ranks_per_node,
            "nodes": names(answer.network, &effect.blind.candidate),
            "seconds_without_load": interval(&effect.without.seconds),
            "seconds": interval(&effect.blind.estimate.seconds),
            "over_best": { "value": value, "low": low, "high": high, "significant": significant },
        },
        "best_seconds_at_low_load": effect.between.map(|(low, _)| low),
        "best_seconds_at_high_load": effect.between.map(|(_, high)| high),
    })
}
