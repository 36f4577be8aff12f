//! `idlewave record` as a library: any program, MPI or not, recorded together with the kernel's view.
//!
//! [`NodeRecorder`] records the programs of one node into a bundle and knows nothing of who started them.

mod node;

pub use node::{NodeBundle, NodeConfig, NodeRecorder, Seen};
