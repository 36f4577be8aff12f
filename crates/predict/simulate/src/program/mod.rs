//! Programs: what every rank does, written once for all ranks, with loops and expressions of the
//! rank.
//!
//! Place in the flow: a program comes from a file ([`Program::read`]), from [`patterns`] or is
//! built as a tree. Bound to a number of ranks and to values of its parameters ([`Program::bind`]),
//! it is played ([`simulate`](fn@simulate)) by the engine of [`goal`](crate::goal), with memory
//! that grows with ranks and not with steps, or expanded to its schedule ([`Bound::expand`]).
//!
//! docs/simulate.md has the grammar.

mod bind;
mod check;
mod code;
mod compile;
mod error;
mod expand;
mod lex;
mod machine;
mod names;
mod operators;
mod parse;
mod parse_expression;
pub mod patterns;
mod play;
mod pool;
mod tree;
mod write;

pub use bind::{Bindings, Bound};
pub use error::{Place, Problem, ProgramError, ReadProgramError};
pub use play::{PlayError, simulate, simulate_with};
pub use tree::{Binary, Expression, Parameter, Program, Statement, Step, Unary};
