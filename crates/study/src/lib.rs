//! `idlewave study` as a library: measure a machine, record the kernel meanwhile, explain, predict, report.
//!
//! [`study`] records into a bundle; everything after that reads the bundle only, through [`analyse`] and
//! [`render`], so that doing it again gives the same bytes.

mod analyse;
mod date;
mod error;
mod gather;
mod kernel_view;
mod lock;
mod options;
mod plan;
mod progress;
mod record;
mod salvage;
mod show;

pub use analyse::{Analysis, analyse};
pub use error::StudyError;
pub use options::StudyOptions;
pub use progress::{Progress, Quiet, Stop};
pub use record::study;
pub use show::{render, summary};
