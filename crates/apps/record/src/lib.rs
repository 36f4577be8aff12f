//! `idlewave record` as a library: any program, MPI or not, recorded together with the kernel's
//! view.
//!
//! [`record`] is the command; [`NodeRecorder`] records the programs of one node into a bundle and
//! does not know who started them. [`study_layouts`] records a program on several layouts of ranks.

mod child;
mod error;
mod front;
mod launch;
mod launch_options;
mod layout_launch;
mod layout_parts;
mod layouts;
mod merge;
mod merge_ids;
#[cfg(test)]
mod merge_testing;
mod node;
mod node_frames;
mod node_job;
mod node_place;
mod node_record;
mod node_send;
mod node_shim;
mod nodes;
mod nodes_join;
mod nodes_wait;
mod signals;
mod tree;

pub use child::{exit_code, start, wait_for, when_ended};
pub use error::RecordError;
pub use front::{RecordOptions, Recorded, record};
pub use launch::{Launch, LaunchError, Machine, Programs, find_launch};
pub use launch_options::Launcher;
pub use layouts::{FailedRun, LayoutOptions, LayoutStudy, study_layouts};
pub use merge::{Front, NodeRun, host, merge, order};
pub use node::{KernelTrace, NodeBundle, NodeConfig, NodeRecorder, Seen};
pub use node_place::{Held, Place};
pub use node_record::node_record;
pub use node_send::node_send;
pub use node_shim::node_run;
pub use nodes::{Fetched, Nodes};
pub use nodes_join::{join_left, join_nodes, missing_ranks};
pub use signals::Signals;
pub use tree::{descendants, send, was_given};
