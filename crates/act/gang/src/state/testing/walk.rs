//! A run in random order, in which ranks are stopped at random.

use super::machine::{Machine, Step};
use super::program::Program;
use super::random::Random;

/// Runs a program until no step is possible, and shows the machine before each step and at the end.
/// Now and then a rank is stopped for a while, as by gang switching or busy CPUs; a stopped rank
/// continues when no other can.
pub fn walk<'a>(
    program: &'a Program,
    random: &mut Random,
    mut visit: impl FnMut(&Machine<'a>, &mut Random),
) -> Machine<'a> {
    let mut machine = Machine::new(program);
    let mut stopped = vec![false; program.ranks.len()];
    loop {
        visit(&machine, random);
        if random.one_in(8) {
            let rank = random.below(stopped.len());
            stopped[rank] = !stopped[rank];
        }
        let mut steps = machine.steps();
        let runs = |step: &Step| match step {
            Step::Begin(rank) | Step::End(rank, _) => !stopped[*rank],
            Step::Arrive(..) => true,
        };
        if steps.iter().any(runs) {
            steps.retain(runs);
        }
        if steps.is_empty() {
            return machine;
        }
        machine.take(steps[random.below(steps.len())]);
    }
}
