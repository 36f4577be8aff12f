//! Which row comes next, and for how long.
//!
//! Pure: rows, what their gangs do, and what turns and switches took go in; decisions come out. The
//! controller has the clock.
//!
//! **Shares.** Rows of one class share time by start-time fair queuing (P. Goyal, H. Vin, H. Cheng,
//! "Start-time fair queueing", SIGCOMM 1996; the same idea is stride scheduling, Waldspurger 1995):
//! a row that ran for `t` has its tag moved on by `t / weight`, and the lowest tag is next. Of two
//! rows that stay active over any interval, time / weight differs by at most `longest turn /
//! weight` of the one plus the same of the other. What counts is the time that a row really ran, so
//! a late switch is paid for by the row that had it.
//!
//! **Interactive rows** come first as long as their share allows: over any time in which rows of
//! production are active, interactive rows run for at most `share` of it, plus [`Settings::burst`],
//! plus one turn (turns of idle rows apart). Then production has its turn, so it never starves.
//!
//! **Early yield.** A row whose gangs are all idle has no turn but a short one each
//! [`Settings::probe`], since a frozen gang cannot see that its input came, and never two of these
//! turns in a row while another row is active; a row whose gangs are all gone or deadlocked has
//! none.
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
