//! What can go wrong in a simulation.

/// Why a prediction was not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulateError {
    /// There are no ranks, or they compute for no time at all, so that no noise can strike and no ratio exists.
    #[error("simulate: the profile has no ranks or no work between two exchanges")]
    NoWork,
    /// A rate that is no rate.
    #[error("simulate source '{name}': {rate} events per second is not a rate")]
    BadRate {
        /// Name of the source.
        name: String,
        /// The offending rate.
        rate: f64,
    },
    /// So many events that not even the smallest number of ranks can be computed.
    #[error("simulate: {per_step} events per rank and step are more than can be simulated")]
    TooManyEvents {
        /// Expected events of all sources in one step of one rank.
        per_step: f64,
    },
    /// More sources to remove than curves are made for.
    #[error("simulate without {asked} sources: at most {limit} can be removed one by one")]
    TooManyRemoved {
        /// How many were asked for.
        asked: usize,
        /// How many are possible.
        limit: usize,
    },
    /// A measured run that cannot be simulated.
    #[error("simulate run '{name}': {ranks} ranks and {work} of work cannot be simulated")]
    BadRun {
        /// Name of the run.
        name: String,
        /// Its ranks.
        ranks: u32,
        /// Its work between two exchanges.
        work: idlewave_units::Nanos,
    },
    /// Delays that do not fit signed 64-bit nanoseconds.
    #[error("simulate: the delays exceed 292 years")]
    TooLong,
    /// `stop` became true.
    #[error("simulate: stopped before the end")]
    Stopped,
}
