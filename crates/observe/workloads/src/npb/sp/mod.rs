//! SP, scalar pentadiagonal: as in BT the flow is advanced by sweeps along the three directions, but
//! in characteristic variables, which decouples the five equations (RNR-94-007, section 4.4).

mod pentadiagonal;
mod variables;

use super::cells::{self, Costs, Flow, Published, SWEEPS, Scheme, Sweeps, most_ranks};
use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::Traffic;
use crate::WorkloadError;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::Fabric;
use idlewave_units::{Bytes, Rank};
use pentadiagonal::{KEPT, LANES, Pentadiagonal};

/// Published norms of the residual and of the error.
const PUBLISHED: [Published; Class::ALL.len()] = [
    [
        [
            0.027_470_315_451_339_48,
            0.010_360_746_705_285_417,
            0.016_235_745_065_095_532,
            0.015_840_557_224_455_615,
            0.034_849_040_609_362_46,
        ],
        [
            2.728_925_855_737_722_5e-5,
            1.036_444_664_083_728_5e-5,
            1.615_479_828_716_647e-5,
            1.575_070_499_448_01e-5,
            3.417_766_618_339_053e-5,
        ],
    ],
    [
        [
            0.001_893_253_733_584,
            0.000_171_707_544_777_5,
            0.000_277_815_335_093_6,
            0.000_288_747_540_998_4,
            0.003_143_611_161_242,
        ],
        [
            7.542_088_599_534e-5,
            6.512_852_253_086e-6,
            1.049_092_285_688e-5,
            1.128_838_671_535e-5,
            0.000_121_284_563_977_3,
        ],
    ],
    [
        [
            2.479_982_239_930_019_5,
            1.127_633_796_436_883_2,
            1.502_897_788_877_049_2,
            1.421_781_621_169_518,
            2.129_211_303_513_828,
        ],
        [
            0.000_109_001_402_978_205_5,
            3.734_395_176_928_209e-5,
            5.009_278_540_654_163e-5,
            4.767_109_393_952_825e-5,
            0.000_136_216_133_992_13,
        ],
    ],
    [
        [
            69.032_935_799_98,
            30.951_344_880_84,
            41.033_366_470_17,
            38.647_690_096_04,
            56.434_822_725_96,
        ],
        [
            0.009_810_006_190_188,
            0.001_022_827_905_67,
            0.001_720_597_911_692,
            0.001_694_479_428_231,
            0.018_474_562_639_81,
        ],
    ],
    [
        [
            588.169_158_182_9,
            245.441_760_356_9,
            329.382_919_185_1,
            308.192_497_189_1,
            459.722_379_917_6,
        ],
        [
            0.259_812_050_018_3,
            0.025_908_889_223_15,
            0.051_328_864_163_2,
            0.048_060_734_194_54,
            0.548_337_749_130_1,
        ],
    ],
    [
        [
            10_446.962_168_87,
            3_204.427_762_578,
            4_648.680_733_032,
            4_238.923_283_697,
            7_588.412_036_136,
        ],
        [
            5.089_471_423_669,
            0.532_351_485_589_4,
            1.187_051_008_971,
            1.083_734_951_938,
            11.641_083_385_68,
        ],
    ],
];

impl Class {
    const fn sp_grid(self) -> u32 {
        self.of(&[12, 36, 64, 102, 162, 408])
    }

    const fn sp_time_step(self) -> f64 {
        self.of(&[0.015, 0.0015, 0.0015, 0.001, 0.000_67, 0.0003])
    }
}

/// Nanoseconds per point in the regions of one run of class W on one core of a virtual machine:
/// only their ratios matter. Sweeps are divided into
/// elimination and substitution by their multiplications.
const COSTS: Costs = Costs {
    rhs: 90,
    eliminate: 24,
    substitute: 8,
    add: 16,
};

/// The flow of one rank.
#[derive(Debug)]
pub struct Sp {
    class: Class,
    flow: Flow,
    systems: Pentadiagonal,
    sweeps: Sweeps<LANES, KEPT>,
}

impl Sp {
    fn step<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        self.flow.rhs(watch)?;
        watch.region("to characteristics");
        let cells = self.flow.cells.iter_mut();
        for (cell, sound) in cells.zip(&mut self.systems.sound) {
            variables::set_sound(cell, sound);
            variables::to_characteristics(cell, sound);
        }
        for (direction, name) in SWEEPS.into_iter().enumerate() {
            watch.region(name);
            self.sweeps
                .sweep(&mut self.flow, &mut self.systems, direction, watch)?;
        }
        watch.region("from characteristics");
        let cells = self.flow.cells.iter_mut();
        for (cell, sound) in cells.zip(&self.systems.sound) {
            variables::from_characteristics(cell, sound);
        }
        watch.region("add");
        self.flow.add();
        Ok(())
    }

    /// Bytes that the arrays take.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.flow.held() + self.sweeps.held() + self.systems.held()
    }
}

impl Kernel for Sp {
    const OPERATION: &'static str = "floating-point operations";

    fn allowed(class: Class) -> Allowed {
        Allowed::Squares(most_ranks(class.sp_grid()))
    }

    fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
        let (grid, reach) = (class.sp_grid(), Pentadiagonal::REACH);
        Bytes::new(
            Flow::memory(grid, ranks)
                + Sweeps::<LANES, KEPT>::memory(grid, ranks, reach)
                + Sweeps::<LANES, KEPT>::under_way(grid, ranks, reach)
                + Pentadiagonal::memory(grid, ranks),
        )
    }

    fn iterations(class: Class) -> u32 {
        class.of(&[100, 400, 400, 400, 400, 500])
    }

    fn operations(class: Class) -> u64 {
        let n = f64::from(class.sp_grid());
        let each = 881.174 * n.powi(3) - 4_683.91 * n.powi(2) + 11_484.5 * n - 19_272.4;
        (each * f64::from(Self::iterations(class))) as u64
    }

    fn traffic(class: Class, ranks: u32, rank: Rank) -> Traffic {
        cells::traffic::<Pentadiagonal, LANES, KEPT>(class.sp_grid(), ranks, rank, COSTS)
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        let flow = Flow::new(class.sp_grid(), class.sp_time_step(), watch);
        let mut sp = Self {
            class,
            systems: Pentadiagonal::new(&flow),
            sweeps: Sweeps::new(&flow, Pentadiagonal::REACH),
            flow,
        };
        sp.step(watch)?;
        sp.flow.set_initial();
        Ok(sp)
    }

    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        _: u32,
    ) -> Result<(), WorkloadError> {
        self.step(watch)
    }

    fn checks<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<Vec<Check>, WorkloadError> {
        self.flow.checks(watch, &self.class.of(&PUBLISHED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_ranks;

    #[test]
    fn the_stated_memory_is_what_the_arrays_take() {
        for ranks in [1, 4, 9, 16, 25] {
            let grid = Class::S.sp_grid();
            let reach = Pentadiagonal::REACH;
            let messages = Sweeps::<LANES, KEPT>::under_way(grid, ranks, reach);
            let stated = Sp::memory_per_rank(Class::S, ranks).get() - messages;
            let held = on_ranks(ranks, |fabric| {
                let mut watch = Stopwatch::start(fabric);
                let mut sp = Sp::new(Class::S, &mut watch)?;
                sp.iterate(&mut watch, 1)?;
                Ok::<_, WorkloadError>((sp.held() as u64, watch.longest_buffer()))
            });
            let held: Vec<_> = held
                .into_iter()
                .map(|h| h.expect("no rank fails"))
                .collect();
            let longest = held.iter().map(|&(_, longest)| longest).max();
            let message = 8 * Sweeps::<LANES, KEPT>::longest_message(grid, ranks, reach);
            let equal_cells = (grid - 2) % ranks.isqrt() == 0;
            assert!(
                longest <= Some(message),
                "{ranks}: {longest:?} of {message}"
            );
            assert!(!equal_cells || longest == Some(message), "{ranks}");
            for (held, _) in held {
                assert!(held <= stated, "{ranks}: {held} of {stated}");
                assert!(
                    !equal_cells || held == stated,
                    "{ranks}: {held} of {stated}"
                );
            }
        }
    }
}
