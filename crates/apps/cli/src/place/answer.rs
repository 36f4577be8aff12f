//! The answer of `idlewave place`, and its failures.

use super::subject::Subject;
use crate::exit::{Exit, Failure};
use idlewave_network::{Estimate, Network, NetworkError};
use idlewave_place::{Advice, Advised, Job, MOST_OPERATIONS, PlaceError};

/// Everything that the output shows.
pub struct Answer<'a> {
    pub what: &'a str,
    pub network_in_words: &'a str,
    pub subject: &'a Subject,
    pub network: &'a Network,
    pub job: &'a Job,
    pub advice: &'a Advice,
    /// What was assumed.
    pub notes: Vec<String>,
    /// What makes the answer doubtful.
    pub warnings: Vec<String>,
    /// Files and options for launchers, by name.
    pub files: Vec<(String, String)>,
    pub seed: u64,
    /// Whether Scotch was asked.
    pub scotch: bool,
    /// The mapping of `--evaluate`.
    pub given: Option<Given>,
    /// What the load of `--load` changed.
    pub effect: Option<Effect>,
}

/// A mapping that was simulated.
pub struct Given {
    /// The option's value.
    pub name: String,
    pub advised: Advised,
}

/// What a load changed.
pub struct Effect {
    /// The choice without the load, as predicted without it.
    pub without: Estimate,
    /// The same choice under the load.
    pub blind: Advised,
    /// Whether the load changed the choice.
    pub changed: bool,
    /// Predicted times of the choice at both ends of the load's intervals, seconds.
    pub between: Option<(f64, f64)>,
}

/// Failures of the search or the simulation.
impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        if let PlaceError::UnknownCores { node } = &error {
            let what = format!("place ranks on {node}: its number of cores is not known");
            let next = "give it with --cores, or a file that contains it, such as the output of scontrol show node";
            return Failure::new(Exit::Usage, what).with_next(next);
        }
        let next = match &error {
            PlaceError::TooLong { .. } | PlaceError::OverLimit { .. } => {
                let next = format!(
                    "give one of at most {MOST_OPERATIONS}, such as fewer ranks or a shorter run"
                );
                return Failure::new(Exit::Usage, error.to_string()).with_next(next);
            }
            PlaceError::Description { .. } => "give fewer --ranks",
            PlaceError::TooFewCores { .. } => "give fewer ranks, or more nodes",
            PlaceError::Parted { .. } => {
                "give fewer ranks, or a topology with the switches that connect the parts"
            }
            PlaceError::TooFewNodes { .. } => "allow more with --per-node or --max-nodes",
            PlaceError::NoNodes { .. } => {
                "give nodes that are free, or name with --only those to use whatever their state"
            }
            PlaceError::UnknownNodes { .. } => {
                "give node names of this network: `idlewave place topology FILE --json` lists them"
            }
            PlaceError::Crowded { .. } => {
                "give at most one rank per core, or the number of cores with --cores"
            }
            PlaceError::NoCore { .. } | PlaceError::SharedCore { .. } => {
                "correct the rank file; cores of a node count from 0, domain after domain"
            }
            PlaceError::Network(NetworkError::Stuck { .. }) => {
                "correct the program: `idlewave simulate goal` shows what waits for what"
            }
            PlaceError::Network(NetworkError::Topology(_)) => {
                "connect them, or mark the nodes of the other parts free = false: docs/topologies.md"
            }
            _ => "see idlewave place --help",
        };
        let exit = match error {
            PlaceError::Network(_) => Exit::Bundle,
            _ => Exit::Usage,
        };
        Failure::new(exit, error.to_string()).with_next(next)
    }
}
