//! The load that other jobs put on the network: `idlewave place load` measures it, `--load` uses it.

mod apply;
mod effect;
mod measure;
mod text;

pub use apply::{Choice, Loaded, Source, apply, jobs, obtain};
pub use effect::{as_json, effect, lines};
pub use measure::{LoadArgs, run_load};
