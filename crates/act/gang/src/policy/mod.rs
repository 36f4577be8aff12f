//! Which row comes next, and for how long.
//!
//! Inputs are the rows, what their gangs do, and how long turns and switches took; outputs are
//! decisions. No I/O; the controller has the clock.
//!
//! **Shares.** Rows of one class share time by start-time fair queuing (P. Goyal, H. Vin, H. Cheng,
//! "Start-time fair queueing", SIGCOMM 1996; the same idea is stride scheduling, Waldspurger 1995):
//! running for `t` advances a row's tag by `t / weight`, and the row with the lowest tag is next.
//! For two rows that both stay active over any interval, time / weight differs by at most the sum
//! of their `longest turn / weight`. Only the time that a row actually ran counts, so a late switch
//! is charged to the row that ran longer.
//!
//! **Interactive rows** come first as long as their share allows: over any time in which production
//! rows are active, interactive rows run for at most `share` of it, plus [`Settings::burst`], plus
//! one turn (turns of idle rows not counted). Then production has its turn, so it never starves.
//!
//! **Early yield.** A row whose gangs are all idle gets only one short turn per
//! [`Settings::probe`], since a frozen gang cannot see that its input came. While another row is
//! active, no two such turns follow each other. A row whose gangs are all terminated or deadlocked
//! gets no turn.
//!
//! **Length of a slice.** `cost / target`, with `cost` an upper quantile of the last switches (see
//! [`Costs`]), within bounds of 10 to 100 ms by default: below, caches are cold all the time;
//! above, people notice.

mod choose;
mod costs;
mod settings;

pub use choose::{Activity, Class, Decision, Policy, Reason};
pub use costs::{Costs, Slice};
pub use settings::{PolicyError, Settings};
