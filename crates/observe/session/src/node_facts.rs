//! Identity of a node and of its clocks.

use idlewave_sys::clock::now;
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Identity of a node and of its clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Host name.
    pub host: String,
    /// Boot id of the running kernel; nodes with the same one share a clock.
    pub boot_id: String,
    /// Offset from CLOCK_MONOTONIC to CLOCK_REALTIME, nanoseconds.
    pub realtime_ns: i64,
    /// Error bound of CLOCK_REALTIME according to the kernel (`adjtimex`), if it is synchronised;
    /// nanoseconds.
    pub realtime_error_ns: Option<u64>,
    /// Time namespace: nodes in different ones have different clocks even on one kernel.
    pub time_namespace: Option<String>,
}

impl NodeFacts {
    /// The facts of this process's node.
    pub fn here() -> Self {
        let read = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let link = |path: &str| {
            fs::read_link(path)
                .ok()
                .map(|l| l.to_string_lossy().into_owned())
        };
        let (realtime_ns, realtime_error_ns) = realtime();
        Self {
            host: read("/proc/sys/kernel/hostname"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            realtime_ns,
            realtime_error_ns,
            time_namespace: link("/proc/self/ns/time"),
        }
    }

    /// Whether both nodes read the same clock: they share a kernel and a time namespace.
    pub fn shares_clock(&self, other: &Self) -> bool {
        !self.boot_id.is_empty()
            && self.boot_id == other.boot_id
            && self.time_namespace == other.time_namespace
    }
}

fn realtime() -> (i64, Option<u64>) {
    // Use the middle of two readings of one clock around a reading of the other.
    let before = now().get() as i64;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    let after = now().get() as i64;
    let wall = wall.map_or(0, |wall| wall.as_nanos() as i64);
    // SAFETY: an all-zero timex is valid and requests no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is our own timex for the whole call.
    let synchronised = unsafe { libc::adjtimex(&mut state) } != libc::TIME_ERROR;
    let error = u64::try_from(state.maxerror).ok().filter(|_| synchronised);
    (
        wall - (before + (after - before) / 2),
        error.map(|us| us.saturating_mul(1_000)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_knows_its_clocks() {
        let facts = NodeFacts::here();
        assert_eq!(facts.boot_id.len(), 36);
        // Wall clock minus time since boot: between 2001 and 2200.
        assert!((1e18..7.3e18).contains(&(facts.realtime_ns as f64)));
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<NodeFacts>(&text).unwrap(), facts);
        assert!(facts.shares_clock(&facts));
        let apart = NodeFacts {
            time_namespace: Some("time:[1]".to_owned()),
            ..facts.clone()
        };
        assert!(!facts.shares_clock(&apart));
        let unknown = NodeFacts {
            boot_id: String::new(),
            ..facts
        };
        assert!(!unknown.shares_clock(&unknown));
    }
}
