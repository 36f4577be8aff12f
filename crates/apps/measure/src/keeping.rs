//! What a measurement with phases of its own keeps besides its results: the clocks of all nodes and,
//! if requested, a bundle.

use crate::bundle::Bundle;
use crate::clocks::Clocks;
use crate::node_watch::NodeWatch;
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, gather};
use idlewave_clock::Calibration;
use idlewave_fabric::Fabric;
use idlewave_session::Stop;
use idlewave_units::CpuSet;

/// Held by every rank during a measurement.
pub struct Keeping {
    clocks: Clocks,
    watch: Option<NodeWatch>,
    /// On rank 0, if one was requested.
    bundle: Option<Bundle>,
    failure: Option<MeasureError>,
}

impl Keeping {
    /// Begins the bundle and compares the clocks. All ranks call it; if rank 0 cannot write, it
    /// gets the error and the others get `None`.
    pub fn begin<F: Fabric>(
        fabric: &mut F,
        options: &MeasureOptions,
        ranks: &Ranks,
        calibration: &Calibration,
    ) -> Result<Option<Self>, MeasureError> {
        Self::begin_beside(fabric, options, ranks, calibration, &CpuSet::default())
    }

    /// [`begin`](Self::begin), with these CPUs in the kernel trace besides those of the ranks.
    pub fn begin_beside<F: Fabric>(
        fabric: &mut F,
        options: &MeasureOptions,
        ranks: &Ranks,
        calibration: &Calibration,
        beside: &CpuSet,
    ) -> Result<Option<Self>, MeasureError> {
        let clocks = Clocks::begin(fabric, &ranks.nodes)?;
        let (watch, sheets) = NodeWatch::begin(fabric, options, ranks, calibration)?;
        let bundle = match fabric.rank().get() {
            0 => Bundle::begin(options, ranks, sheets, beside),
            _ => Ok(None),
        };
        if !gather::agree(fabric, bundle.is_ok())? {
            return bundle.map(|_| None);
        }
        Ok(Some(Self {
            clocks,
            watch,
            bundle: bundle?,
            failure: None,
        }))
    }

    /// Compares the clocks after a run. All ranks call it.
    pub fn compare<F: Fabric>(&mut self, fabric: &mut F) -> Result<(), MeasureError> {
        Ok(self.clocks.compare(fabric)?)
    }

    /// The clocks, as last compared.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Whether everything could be written so far. Known on rank 0; true on the others.
    pub fn is_well(&self) -> bool {
        self.failure.is_none()
    }

    /// Adds to the bundle, if there is one and nothing has failed.
    pub fn add(&mut self, rows: impl FnOnce(&mut Bundle) -> Result<(), MeasureError>) {
        if let (Some(bundle), None) = (&mut self.bundle, &self.failure) {
            bundle.align(&self.clocks);
            self.failure = rows(bundle).err();
        }
    }

    /// Notes in the bundle why it lacks a result.
    pub fn note(&mut self, why: &str) {
        if let Some(bundle) = &mut self.bundle {
            bundle.note(why);
        }
    }

    /// Completes the bundle. All ranks call it.
    pub fn finish<F: Fabric>(
        mut self,
        fabric: &mut F,
        options: &MeasureOptions,
        ranks: &Ranks,
        calibration: &mut Calibration,
        stop: &Stop,
    ) -> Result<(), MeasureError> {
        calibration.update();
        let ends = NodeWatch::finish(fabric, self.watch, options, ranks, calibration)?;
        if let Some(bundle) = self.bundle {
            let failed = self.failure.as_ref();
            let closed = bundle.close(ends, &mut self.clocks, stop.signal(), failed);
            self.failure = self.failure.or(closed.err());
        }
        self.failure.map_or(Ok(()), Err)
    }
}
