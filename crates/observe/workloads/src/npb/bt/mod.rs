//! BT, block tridiagonal: the flow is advanced by an approximate factorisation into three implicit
//! operators, one per direction, of 5 x 5 blocks (RNR-94-007, section 4.5).

mod blocks;

use super::cells::{self, Costs, Flow, Published, SWEEPS, Scheme, Sweeps, most_ranks};
use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::Traffic;
use crate::WorkloadError;
use crate::stopwatch::Stopwatch;
use blocks::{BlockTridiagonal, KEPT, LANES};
use idlewave_fabric::Fabric;
use idlewave_units::{Bytes, Rank};

/// Published norms of the residual and of the error.
const PUBLISHED: [Published; Class::ALL.len()] = [
    [
        [
            0.170_342_837_095_413_12,
            0.012_975_252_070_034_096,
            0.032_527_926_989_486_054,
            0.026_436_421_275_166_8,
            0.192_117_841_317_444_3,
        ],
        [
            0.000_499_769_133_458_115_8,
            4.519_566_678_296_193e-5,
            7.397_376_517_292_135e-5,
            7.382_123_863_243_973e-5,
            0.000_892_696_309_874_914_5,
        ],
    ],
    [
        [
            112.559_040_934_4,
            11.800_075_957_31,
            27.103_297_678_46,
            24.691_749_376_69,
            263.842_787_431_7,
        ],
        [
            4.419_655_736_008,
            0.463_853_126_000_2,
            1.011_551_749_967,
            0.923_587_872_994_4,
            10.180_458_377_18,
        ],
    ],
    [
        [
            108.063_467_146_372_64,
            11.319_730_901_220_813,
            25.974_354_511_582_465,
            23.665_622_544_678_91,
            252.789_632_117_483_45,
        ],
        [
            4.234_841_604_052_502_5,
            0.443_902_824_969_957,
            0.966_924_801_363_456_5,
            0.883_020_630_397_654_8,
            9.737_990_177_082_928,
        ],
    ],
    [
        [
            1_423.359_722_928_725_4,
            99.330_522_590_150_24,
            356.460_256_445_352_85,
            324.854_479_590_840_9,
            3_270.754_125_465_936_3,
        ],
        [
            52.969_847_140_936_86,
            4.463_289_611_567_067,
            13.122_573_342_210_174,
            12.006_925_323_559_145,
            124.595_761_510_359_86,
        ],
    ],
    [
        [
            6_239.811_655_176_461_5,
            507.932_391_904_239_64,
            1_542.353_009_301_359_6,
            1_330.238_792_929_119,
            11_604.087_428_436_455,
        ],
        [
            164.620_083_690_912_65,
            11.497_107_903_824_313,
            41.207_446_207_461_51,
            37.087_651_059_694_17,
            362.110_530_518_412_65,
        ],
    ],
    [
        [
            25_331.885_517_38,
            2_346.393_716_98,
            6_294.554_366_904,
            5_352.565_376_03,
            39_058.640_386_18,
        ],
        [
            310.000_937_755_7,
            24.240_863_249_13,
            77.822_120_226_45,
            68.356_238_601_16,
            606.573_720_036_8,
        ],
    ],
];

impl Class {
    const fn bt_grid(self) -> u32 {
        self.of(&[12, 24, 64, 102, 162, 408])
    }

    const fn bt_time_step(self) -> f64 {
        self.of(&[0.01, 0.0008, 0.0008, 0.0003, 0.0001, 0.000_02])
    }
}

/// Nanoseconds per point in the regions of one run of class W on one core of a virtual machine:
/// only their ratios matter. Sweeps are divided into
/// elimination and substitution by their multiplications.
const COSTS: Costs = Costs {
    rhs: 61,
    eliminate: 158,
    substitute: 10,
    add: 8,
};

/// The flow of one rank.
#[derive(Debug)]
pub struct Bt {
    class: Class,
    flow: Flow,
    systems: BlockTridiagonal,
    sweeps: Sweeps<LANES, KEPT>,
}

impl Bt {
    fn step<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        self.flow.rhs(watch)?;
        for (direction, name) in SWEEPS.into_iter().enumerate() {
            watch.region(name);
            self.sweeps
                .sweep(&mut self.flow, &mut self.systems, direction, watch)?;
        }
        watch.region("add");
        self.flow.add();
        Ok(())
    }

    /// Bytes that the arrays take.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.flow.held() + self.sweeps.held()
    }
}

impl Kernel for Bt {
    const OPERATION: &'static str = "floating-point operations";

    fn allowed(class: Class) -> Allowed {
        Allowed::Squares(most_ranks(class.bt_grid()))
    }

    fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
        let (grid, reach) = (class.bt_grid(), BlockTridiagonal::REACH);
        Bytes::new(
            Flow::memory(grid, ranks)
                + Sweeps::<LANES, KEPT>::memory(grid, ranks, reach)
                + Sweeps::<LANES, KEPT>::under_way(grid, ranks, reach),
        )
    }

    fn iterations(class: Class) -> u32 {
        class.of(&[60, 200, 200, 200, 200, 250])
    }

    fn operations(class: Class) -> u64 {
        let n = f64::from(class.bt_grid());
        let each = 3_478.8 * n.powi(3) - 17_655.7 * n.powi(2) + 28_023.7 * n;
        (each * f64::from(Self::iterations(class))) as u64
    }

    fn traffic(class: Class, ranks: u32, rank: Rank) -> Traffic {
        cells::traffic::<BlockTridiagonal, LANES, KEPT>(class.bt_grid(), ranks, rank, COSTS)
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        let flow = Flow::new(class.bt_grid(), class.bt_time_step(), watch);
        let mut bt = Self {
            class,
            systems: BlockTridiagonal::new(&flow),
            sweeps: Sweeps::new(&flow, BlockTridiagonal::REACH),
            flow,
        };
        bt.step(watch)?;
        bt.flow.set_initial();
        Ok(bt)
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
            let grid = Class::S.bt_grid();
            let reach = BlockTridiagonal::REACH;
            let messages = Sweeps::<LANES, KEPT>::under_way(grid, ranks, reach);
            let stated = Bt::memory_per_rank(Class::S, ranks).get() - messages;
            let held = on_ranks(ranks, |fabric| {
                let mut watch = Stopwatch::start(fabric);
                let mut bt = Bt::new(Class::S, &mut watch)?;
                bt.iterate(&mut watch, 1)?;
                Ok::<_, WorkloadError>((bt.held() as u64, watch.longest_buffer()))
            });
            let held: Vec<_> = held
                .into_iter()
                .map(|h| h.expect("no rank fails"))
                .collect();
            let longest = held.iter().map(|&(_, longest)| longest).max();
            let message = 8 * Sweeps::<LANES, KEPT>::longest_message(grid, ranks, reach);
            assert_eq!(longest, Some(message), "{ranks}");
            for (held, _) in held {
                assert!(held <= stated, "{ranks}: {held} of {stated}");
                // All cells are equal.
                if (grid - 2) % ranks.isqrt() == 0 {
                    assert_eq!(held, stated, "{ranks}");
                }
            }
        }
    }
}
