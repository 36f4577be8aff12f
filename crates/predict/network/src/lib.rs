//! The cost of messages on a shared network.
//!
//! Place in the flow: before placement. Parameters ([`NetworkParameters`]) come from a calibration
//! or are written by hand. docs/network.md describes the model and its limits.

mod calibration;
mod contention;
mod described;
mod error;
mod estimate;
mod flows;
mod least;
mod maxmin;
mod parameters;
mod path;
mod play;
mod program;
mod quantity;
mod resources;
mod stage;
mod text;

pub use calibration::{
    Calibration, CalibrationSamples, Deviations, Distance, PointFit, Probe, SamplePoint, fit,
};
pub use contention::{
    Above, ContentionRow, ContentionStudy, ContentionTable, Exchange, Family, Foretold,
    PredictedRow, TableError, read_contention, study_contention,
};
pub use described::{Act, Description, Part, described, operations_of};
pub use error::NetworkError;
pub use estimate::{Estimate, Limiting, Predicted};
pub use flows::{Ended, Flows};
pub use least::Least;
pub use maxmin::{Limit, Sharing, Use};
pub use parameters::{Adapter, Misfit, NetworkParameters, PathCosts, SlowDown};
pub use path::{Held, Parts};
pub use play::{Played, play, play_from};
pub use program::{Message, Program};
pub use quantity::{Origin, Quantity};
pub use resources::{Network, Parameter, Place, Resource};
pub use stage::{Stage, Way};
