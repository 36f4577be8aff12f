//! A port of a switch with its counters.

use crate::rate::Counter;

/// A switch or an adapter, by whatever a text calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Local identifier of InfiniBand.
    pub lid: Option<u32>,
    /// Global identifier of InfiniBand, as `0x` with hexadecimal digits.
    pub guid: Option<String>,
    /// Name or description.
    pub name: Option<String>,
}

impl Device {
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Device::default()
    }
}

/// What a port has sent and received so far, in units of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// How it counts.
    pub counter: Counter,
    /// Out of the port.
    pub sent: u64,
    /// Into it.
    pub received: u64,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The device.
    pub of: Device,
    /// Its number, or the interface's name.
    pub port: String,
    /// What is at the other end; `None` if the text does not say.
    pub peer: Option<Device>,
    /// Its counters; `None` if the text has none.
    pub counts: Option<Counts>,
}
