//! Questions to a simulation: what does noise cost this program, which source costs how much, and
//! how sure is that?
//!
//! Place in the flow: a [`Program`], a [`NoiseModel`] and an [`Effort`] go in, an [`Answer`] with
//! intervals comes out. Every replication is simulated with all noise and without each requested
//! source, with the same random numbers, so that the difference is due to the source.

mod answer;
mod approach;
mod closed;
mod error;
mod extent;
mod repeat;
mod runner;
mod shares;
mod wave;

pub(crate) use answer::answer_within;
pub use answer::{Answer, Question, Without, answer};
pub use approach::Approach;
pub use error::QuestionError;
pub use extent::Extent;
pub use repeat::{Effort, Interval};
pub use shares::{PathShare, PathShares};
pub use wave::{Wave, WaveStep, wave};
