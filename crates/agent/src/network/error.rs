//! What goes wrong when a network is switched.

use super::LIMIT;
use idlewave_fabric::netctx::DeviceError;

/// Why a network cannot be switched. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Something is still under way.
    #[error("drain the network of this node within {} ms", LIMIT.as_millis())]
    Drain,
    /// Its device is not there.
    #[error("switch to gang {0}: it has no network device on this node")]
    Absent(u32),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
