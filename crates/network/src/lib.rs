//! What messages cost on a network that they share.
//!
//! Place in the flow: before placement. Parameters ([`NetworkParameters`]) come from a calibration or by hand.
//! docs/network.md has the model, and what it leaves out.

mod error;
mod maxmin;
mod parameters;
mod quantity;
mod text;

pub use error::NetworkError;
pub use maxmin::{Limit, Sharing, Use};
pub use parameters::{Adapter, NetworkParameters, PathCosts, SlowDown};
pub use quantity::{Origin, Quantity};
