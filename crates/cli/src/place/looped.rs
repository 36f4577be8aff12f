//! A program that does the same over and over, of which a few steps are played.

use super::subject::refuse_many;
use crate::exit::{Exit, Failure};
use idlewave_network::{Description, Part, described, operations_of};
use idlewave_simulate::collectives::{Algorithms, Library};
use idlewave_simulate::goal::Schedule;

/// Steps that are played, unless a round has more; the time of all is in proportion.
const STEPS_PLAYED: u32 = 2;

/// Rounds of steps, all alike.
pub struct Loop {
    /// Number of ranks, from 1.
    pub ranks: u32,
    /// What they do in every step.
    pub step: Vec<Part>,
    /// What they do after the last step of a round.
    pub after_round: Vec<Part>,
    /// Steps of a round, from 1.
    pub steps_per_round: u32,
    /// Steps in all.
    pub steps: u32,
}

impl Loop {
    fn rounds_played(&self) -> u32 {
        let steps = STEPS_PLAYED.min(self.steps);
        steps.div_ceil(self.steps_per_round).max(1)
    }

    /// Steps that are played.
    pub fn steps_played(&self) -> u32 {
        self.rounds_played() * self.steps_per_round
    }

    /// How often what is played has to be for all steps.
    pub fn times(&self) -> f64 {
        f64::from(self.steps) / f64::from(self.steps_played())
    }

    /// What is played of the program that is called `what`.
    pub fn schedule(&self, what: &str, library: Library) -> Result<Schedule, Failure> {
        let algorithms = Algorithms::of_library(library);
        let operations = |phases: &[Part]| {
            let description = Description {
                ranks: self.ranks,
                phases: phases.to_vec(),
            };
            operations_of(&description, &algorithms)
        };
        let of_steps = operations(&self.step).saturating_mul(self.steps_per_round.into());
        let of_round = of_steps.saturating_add(operations(&self.after_round));
        refuse_many(what, of_round.saturating_mul(self.rounds_played().into()))?;
        let steps = (0..self.steps_per_round).flat_map(|_| &self.step);
        let round = Description {
            ranks: self.ranks,
            phases: steps.chain(&self.after_round).cloned().collect(),
        };
        described(&round, self.rounds_played(), &algorithms).map_err(|error| {
            Failure::new(Exit::Usage, format!("describe {what}: {error}"))
                .with_next("give fewer --ranks")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_simulate::collectives::Kind;

    fn halo(steps_per_round: u32, steps: u32) -> Loop {
        Loop {
            ranks: 2,
            step: vec![Part::Compute(1_000), Part::Between(vec![(0, 1, 8)])],
            after_round: vec![Part::Collective(Kind::Allreduce, 8)],
            steps_per_round,
            steps,
        }
    }

    /// What is played: steps, how often, operations.
    fn played(looped: &Loop) -> (u32, f64, u64) {
        let schedule = looped.schedule("a loop", Library::OpenMpi).unwrap();
        (looped.steps_played(), looped.times(), schedule.operations())
    }

    #[test]
    fn whole_rounds_are_played_of_two_steps_or_more() {
        // A step has 4 operations, and an allreduce of two ranks as many: each sends and receives.
        assert_eq!(played(&halo(1, 100)), (2, 50.0, 16));
        assert_eq!(played(&halo(5, 100)), (5, 20.0, 24));
        assert_eq!(played(&halo(2, 100)), (2, 50.0, 12));
        assert_eq!(played(&halo(1, 1)), (1, 1.0, 8));
    }

    #[test]
    fn a_round_of_too_many_steps_is_refused_before_it_is_made() {
        let refused = halo(u32::MAX, u32::MAX).schedule("a loop", Library::OpenMpi);
        let failure = refused.err().map(|f| f.what);
        let many = 4 * u64::from(u32::MAX) + 4;
        let expected = format!("place a loop: it has {many} operations");
        assert_eq!(failure, Some(expected));
    }
}
