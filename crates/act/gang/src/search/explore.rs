//! All paths, or one at random.

use super::moves::Move;
use super::world::{Faults, Shape, World};
use crate::GangId;
use crate::protocol::Slot;
use idlewave_stats::random::SplitMix;
use std::collections::HashMap;

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Distinct states visited.
    pub states: u64,
    /// Moves taken.
    pub moves: u64,
    /// Distinct states at the horizon.
    pub ends: u64,
    /// Switches completed and aborted, the most on any path.
    pub over: (u32, u32),
    /// The violation and the moves that lead to it; `None` if there is none.
    pub wrong: Option<(String, Vec<Move>)>,
    /// Whether the limit on states ended the search.
    pub cut: bool,
}

/// Explores all states of a configuration, at most `limit` of them.
pub fn explore(shape: &Shape, limit: u64) -> Found {
    let mut found = Found::default();
    let first = World::new(shape);
    // For each state, the state and move by which it was first reached.
    let mut seen: HashMap<u64, (u64, Move)> = HashMap::new();
    let start = first.fingerprint();
    seen.insert(start, (start, Move::Tick));
    let mut stack = vec![(first, start)];
    while let Some((world, own)) = stack.pop() {
        found.states += 1;
        found.over = (
            found.over.0.max(world.over.0),
            found.over.1.max(world.over.1),
        );
        if found.states > limit {
            found.cut = true;
            break;
        }
        if world.now >= world.start + shape.horizon || over(&world) {
            found.ends += 1;
            if let Err(wrong) = end(&world) {
                found.wrong = Some((wrong, path(&seen, own, start)));
                break;
            }
            continue;
        }
        for step in world.moves() {
            let mut next = world.clone();
            let result = next.apply(step);
            found.moves += 1;
            let print = next.fingerprint();
            if let Err(wrong) = result {
                let mut steps = path(&seen, own, start);
                steps.push(step);
                found.wrong = Some((wrong, steps));
                return found;
            }
            seen.entry(print).or_insert_with(|| {
                stack.push((next, print));
                (own, step)
            });
        }
    }
    found
}

fn path(seen: &HashMap<u64, (u64, Move)>, mut at: u64, start: u64) -> Vec<Move> {
    let mut steps = Vec::new();
    while at != start {
        let Some((before, step)) = seen.get(&at) else {
            break;
        };
        steps.push(*step);
        at = *before;
    }
    steps.reverse();
    steps
}

/// Whether only events that repeat forever are left: beats, and nodes that ask to join.
fn over(world: &World) -> bool {
    let idle = world
        .controller
        .as_ref()
        .is_some_and(|c| c.idle() && !c.superseded());
    idle && world.asked >= world.shape.requests.len()
        && world.faults == Faults::default()
        && world.net.is_empty()
        && world.at_rest().is_ok()
}

/// At the horizon: everything is settled, and further switches reach every node that is up.
fn end(world: &World) -> Result<(), String> {
    world.at_rest()?;
    let mut world = world.clone();
    world.faults = Faults::default();
    world.net.retain(|f| f.due.is_some());
    if world.controller.as_ref().is_none_or(|c| c.superseded()) {
        return Ok(());
    }
    // The first one includes nodes that ask to join; they ask every 7 ticks.
    world.shape.requests = vec![(1, false), (0, false), (1, false)];
    let until = world.now + 12 * world.shape.settings.lease.get();
    world.asked = 0;
    while world.now < until {
        world.step_fairly();
        world.verdict()?;
    }
    world.at_rest()?;
    let somebody = world.nodes.iter().any(|n| n.agent.is_some() && !n.leaving);
    if somebody && !world.all_run(Slot::Gang(GangId::new(1))) {
        return Err("S4: after the faults, not all nodes are in step again".to_owned());
    }
    Ok(())
}

/// One random path to the horizon; each possible fault occurs with probability `fault`.
pub fn walk(shape: &Shape, seed: u64, fault: f64) -> Result<World, (String, Vec<Move>)> {
    let mut random = SplitMix::new(seed);
    let mut world = World::new(shape);
    let mut steps = Vec::new();
    while world.now < world.start + shape.horizon {
        let wanted = random.uniform() < fault;
        let moves = world.moves();
        let some: Vec<Move> = moves
            .iter()
            .copied()
            .filter(|m| m.fault() == wanted)
            .collect();
        let from = if some.is_empty() { &moves } else { &some };
        let index = (random.uniform() * from.len() as f64) as usize;
        let Some(step) = from.get(index) else { break };
        steps.push(*step);
        if let Err(wrong) = world.apply(*step) {
            return Err((wrong, steps));
        }
    }
    match end(&world) {
        Ok(()) => Ok(world),
        Err(wrong) => Err((wrong, steps)),
    }
}
