//! What an export is made of.

use super::comms::Comms;
use super::record::Record;
use super::regions::Regions;
use super::survey::Survey;
use crate::export::sorter::Sorter;
use idlewave_run::Ledger;

/// What an export is made of, before it is written.
pub(super) struct Gathered {
    pub survey: Survey,
    pub regions: Regions,
    pub comms: Comms,
    pub records: Sorter<Record>,
    pub losses: Ledger,
}
