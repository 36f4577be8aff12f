//! `idlewave record` as a library: any program, MPI or not, recorded together with the kernel's view.
//!
//! [`NodeRecorder`] records the programs of one node into a bundle and knows nothing of who started them.

mod align;
mod launch;
mod launch_options;
mod merge;
mod merge_ids;
#[cfg(test)]
mod merge_testing;
mod node;
mod node_frames;
mod node_job;
mod node_place;
mod node_send;
mod node_shim;
mod nodes;

pub use align::{Correction, DRIFT_PPM, Exchange, Span, corrections};
pub use launch::{Launch, LaunchError, Launcher, Machine, Programs, find_launch};
pub use merge::{Front, NodeRun, host, merge, order};
pub use nodes::{Fetched, Nodes};
pub use node_send::node_send;
pub use node_shim::node_run;
pub use node::{NodeBundle, NodeConfig, NodeRecorder, Seen};
