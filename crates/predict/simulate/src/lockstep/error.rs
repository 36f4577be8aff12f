//! What can go wrong in lockstep.

/// Why ranks cannot run in lockstep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockstepError {
    /// A side without ranks, or more ranks than 32 bits count.
    #[error("simulate {x} x {y} x {z} ranks: between 1 and 4294967295 ranks are possible")]
    BadShape {
        /// Ranks along the first side.
        x: usize,
        /// Along the second.
        y: usize,
        /// Along the third.
        z: usize,
    },
    /// Noise by exposure.
    #[error("simulate lockstep under noise by exposure: this engine knows the wall clock only")]
    Exposure,
    /// Neighbours at no distance.
    #[error("simulate a stencil of reach 0: the reach is 1 or more")]
    NoReach,
    /// One value per rank was asked for, and there are more or less.
    #[error(
        "simulate {ranks} ranks: {given} values of '{what}' were given, one per rank is needed"
    )]
    BadLength {
        /// What the values are.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// Ranks of the stencil.
        ranks: usize,
    },
    /// Work and communication of a step that are too long to be added up for long.
    #[error("simulate rank {rank}: a step of {ns} ns is longer than 13 days")]
    StepTooLong {
        /// The rank; the first one of those concerned.
        rank: u32,
        /// Its work and communication, in nanoseconds.
        ns: u64,
    },
    /// A delay of a rank that does not exist.
    #[error("delay rank {rank}: there are {ranks} ranks only")]
    NoSuchRank {
        /// The rank named.
        rank: u32,
        /// Ranks of the stencil.
        ranks: usize,
    },
    /// Times that the engine cannot hold.
    #[error("simulate step {step}: the time exceeds 36 years")]
    TooLong {
        /// The step by whose end it was noticed.
        step: u64,
    },
    /// Fewer steps than a mean with an interval takes.
    #[error("average {steps} steps: at least {least} are needed")]
    TooFewSteps {
        /// Steps asked for.
        steps: u64,
        /// The least number.
        least: u64,
    },
}
