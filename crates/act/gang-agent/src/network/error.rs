//! Errors of switching a network.

use idlewave_fabric::netctx::DeviceError;
use std::time::Duration;

/// How long draining may take before it counts as failed. A rank leaves the device when it next
/// runs: after microseconds, or milliseconds if others want its CPU. Less than the protocol's
/// limit.
pub(super) const LIMIT: Duration = Duration::from_millis(100);

/// Why a network cannot be switched. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Something is still in flight.
    #[error("drain the network of this node within {} ms", LIMIT.as_millis())]
    Drain,
    /// A rank has not left its device.
    #[error(
        "drain the network of this node: rank {rank} of gang {gang} of user {user} does not leave its device"
    )]
    Within {
        /// Its user.
        user: u32,
        /// Its gang.
        gang: u32,
        /// The rank.
        rank: u32,
    },
    /// Its device does not exist.
    #[error("switch to gang {0}: it has no network device on this node")]
    Absent(u32),
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
