//! Errors of lockstep runs.

/// Why ranks cannot run in lockstep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockstepError {
    /// A side without ranks, or more ranks than 32 bits can count.
    #[error("simulate {x} x {y} x {z} ranks: between 1 and 4294967295 ranks are possible")]
    BadShape {
        /// Ranks along the first side.
        x: usize,
        /// Ranks along the second side.
        y: usize,
        /// Ranks along the third side.
        z: usize,
    },
    /// Noise by exposure.
    #[error("simulate lockstep under noise by exposure: this engine supports the wall clock only")]
    Exposure,
    /// A stencil without neighbours.
    #[error("simulate a stencil of reach 0: the reach is 1 or more")]
    NoReach,
    /// A list with one value per rank has the wrong length.
    #[error(
        "simulate {ranks} ranks: {given} values of '{what}' were given, one per rank is needed"
    )]
    BadLength {
        /// What the values are.
        what: &'static str,
        /// How many values were given.
        given: usize,
        /// Number of ranks of the stencil.
        ranks: usize,
    },
    /// A step whose work and communication are too long to be added up over many steps.
    #[error("simulate rank {rank}: a step of {ns} ns is longer than 13 days")]
    StepTooLong {
        /// The first rank with such a step.
        rank: u32,
        /// Its work and communication, in nanoseconds.
        ns: u64,
    },
    /// A delay of a rank that does not exist.
    #[error("delay rank {rank}: there are only {ranks} ranks")]
    NoSuchRank {
        /// The rank of the delay.
        rank: u32,
        /// Number of ranks of the stencil.
        ranks: usize,
    },
    /// Times beyond the engine's range.
    #[error("simulate step {step}: the time exceeds 36 years")]
    TooLong {
        /// The step at whose end it was noticed.
        step: u64,
    },
    /// Too few steps for a mean with an interval.
    #[error("average {steps} steps: at least {least} are needed")]
    TooFewSteps {
        /// Steps requested.
        steps: u64,
        /// The least number.
        least: u64,
    },
}
