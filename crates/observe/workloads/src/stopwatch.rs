//! Where a benchmark spends its time on one rank: collectives, point-to-point operations, and the
//! rest.
//!
//! Benchmarks are timed nowhere else. Every operation of the fabric goes through a [`Stopwatch`],
//! which reads CLOCK_MONOTONIC before and after it (20 to 30 ns each).

use idlewave_clock::monotonic_ns;
use idlewave_fabric::FabricError;
use idlewave_units::Nanos;

/// Where the time of one rank went.
///
/// Waiting counts towards the operation in which a rank waits, so the same part means different
/// things on different ranks. The last rank to reach a collective spends little time in it; the
/// others spend the time by which they were early. So parts of several ranks do not add up to parts
/// of the job, and their maxima may come from different ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// From start to end.
    pub total: Nanos,
    /// In collectives, waiting included.
    pub collective: Nanos,
    /// In sends, receives and waits for them.
    pub point_to_point: Nanos,
}

impl Parts {
    /// The rest: what the rank computed, and what interrupted it meanwhile.
    pub const fn computation(&self) -> Nanos {
        self.total
            .saturating_sub(self.collective)
            .saturating_sub(self.point_to_point)
    }
}

/// One rank's endpoint of a fabric, with a stopwatch.
#[derive(Debug)]
pub struct Stopwatch<'a, F> {
    fabric: &'a mut F,
    begin: u64,
    collective: u64,
    point_to_point: u64,
}

impl<'a, F> Stopwatch<'a, F> {
    /// Starts timing now.
    pub fn start(fabric: &'a mut F) -> Self {
        Self {
            fabric,
            begin: monotonic_ns(),
            collective: 0,
            point_to_point: 0,
        }
    }

    /// Resets all times and starts again now.
    pub fn restart(&mut self) {
        (self.collective, self.point_to_point) = (0, 0);
        self.begin = monotonic_ns();
    }

    /// Where the time since the start went.
    pub fn parts(&self) -> Parts {
        Parts {
            total: Nanos::from_nanos(monotonic_ns().saturating_sub(self.begin)),
            collective: Nanos::from_nanos(self.collective),
            point_to_point: Nanos::from_nanos(self.point_to_point),
        }
    }

    /// Untimed access, for rank and size.
    pub fn fabric(&self) -> &F {
        self.fabric
    }

    /// Times a collective.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn collective<T>(
        &mut self,
        operation: impl FnOnce(&mut F) -> Result<T, FabricError>,
    ) -> Result<T, FabricError> {
        let begin = monotonic_ns();
        let done = operation(self.fabric);
        self.collective += monotonic_ns().saturating_sub(begin);
        done
    }

    /// Times the start or the completion of sends and receives.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn point_to_point<T>(
        &mut self,
        operation: impl FnOnce(&mut F) -> Result<T, FabricError>,
    ) -> Result<T, FabricError> {
        let begin = monotonic_ns();
        let done = operation(self.fabric);
        self.point_to_point += monotonic_ns().saturating_sub(begin);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn pause(_: &mut ()) -> Result<(), FabricError> {
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }

    #[test]
    fn each_operation_counts_in_its_own_part_and_the_rest_is_computation() {
        let mut fabric = ();
        let mut watch = Stopwatch::start(&mut fabric);
        watch.collective(pause).expect("a pause");
        let parts = watch.parts();
        assert!(parts.collective >= Nanos::from_millis(2));
        assert_eq!(parts.point_to_point, Nanos::ZERO);
        watch.point_to_point(pause).expect("a pause");
        let after = watch.parts();
        assert_eq!(after.collective, parts.collective);
        assert!(after.point_to_point >= Nanos::from_millis(2));
        let sum = after.collective + after.point_to_point + after.computation();
        assert_eq!(sum, after.total);
        let restarted = Instant::now();
        watch.restart();
        let total = watch.parts().total;
        assert!(total.to_duration() <= restarted.elapsed(), "{total}");
        assert_eq!(watch.parts().collective, Nanos::ZERO);
    }

    #[test]
    fn computation_is_never_below_zero() {
        let parts = Parts {
            total: Nanos::from_nanos(5),
            collective: Nanos::from_nanos(4),
            point_to_point: Nanos::from_nanos(3),
        };
        assert_eq!(parts.computation(), Nanos::ZERO);
    }
}
