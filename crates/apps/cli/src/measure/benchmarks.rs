//! Arguments of the benchmarks: `npb`, `is`, `halo`.

use super::shared::{KeepArgs, OutputArgs, RanksArgs, ScaleArgs};
use clap::Args;
use idlewave_measure::npb::{self, Program};
use idlewave_measure::{Benchmark, Class, Halo, MeasureOptions, ParseBenchmarkError, What};
use std::str::FromStr;

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    ranks: RanksArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    scale: ScaleArgs,
}

impl RunArgs {
    /// Options, and whether the output is JSON.
    fn options(self, what: What) -> (MeasureOptions, bool) {
        let (mut options, json) = self.output.options(what);
        self.ranks.fill(&mut options);
        self.keep.fill(&mut options);
        self.scale.fill(&mut options);
        (options, json)
    }
}

#[derive(Debug, Args)]
pub struct NpbArgs {
    /// Which benchmark, in upper or lower case; `all` for one after the other
    #[arg(value_name = "NAME", default_value = "all", help = names())]
    name: Name,
    /// Size: S (seconds in all), W, A, B, C or D; IS has no D
    #[arg(long, default_value = "S", value_name = "CLASS")]
    class: npb::Class,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Args)]
pub struct IsArgs {
    /// Size: S (2^16 keys), W (2^20), A (2^23), B (2^25) or C (2^27)
    #[arg(long, default_value = "S", value_name = "CLASS")]
    class: Class,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Args)]
pub struct HaloArgs {
    /// Cells per rank along each edge, from 4 to 4096, as in 64 or 64x32x16
    #[arg(long, default_value = "64", value_name = "N", value_parser = cells)]
    cells: Halo,
    /// Steps
    #[arg(long, default_value_t = 100, value_name = "N")]
    steps: u32,
    /// Dimensions of the grid of ranks, 1 to 3
    #[arg(long, default_value_t = 3, value_name = "N")]
    dims: u32,
    /// Combine the residual (the largest change) of all ranks every N steps; 0 for never
    #[arg(long, default_value_t = 0, value_name = "N")]
    residual_every: u32,
    /// Make the grid end at its borders instead of wrapping around
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// Parses only the cells; the rest of a halo benchmark has its own options.
fn cells(text: &str) -> Result<Halo, String> {
    match text.contains(',') {
        true => Err("give one number, or three as in 64x32x16".to_owned()),
        false => text.parse(),
    }
}

/// The name of a NAS Parallel Benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    All,
    Is,
    Of(Program),
}

/// The names, in the order of the output.
fn each() -> impl Iterator<Item = &'static str> {
    Program::ALL.into_iter().map(Program::name).chain(["is"])
}

/// The help of the name.
fn names() -> String {
    let names: Vec<&str> = each().collect();
    format!(
        "Which, in upper or lower case: {}, or all, one after the other",
        names.join(", ")
    )
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "all" => Ok(Self::All),
            "is" => Ok(Self::Is),
            name => Program::of_name(name).map(Self::Of).ok_or_else(|| {
                let names: Vec<&str> = each().collect();
                format!("give one of {}, or all", names.join(", "))
            }),
        }
    }
}

/// The benchmark of this name and class.
fn benchmark(name: &str, class: npb::Class) -> Result<Benchmark, ParseBenchmarkError> {
    format!("{name}:{class}").parse()
}

impl NpbArgs {
    /// Options, and whether the output is JSON.
    pub fn options(self) -> (MeasureOptions, bool) {
        let what = match self.name {
            Name::All => What::Benchmarks(each().map(|name| benchmark(name, self.class)).collect()),
            Name::Is => match benchmark("is", self.class) {
                Ok(benchmark) => What::Benchmark(benchmark),
                // Refused with the classes there are.
                none => What::Benchmarks(vec![none]),
            },
            Name::Of(program) => What::Benchmark(Benchmark::Npb(npb::Npb {
                program,
                class: self.class,
            })),
        };
        self.run.options(what)
    }
}

impl IsArgs {
    /// See [`NpbArgs::options`].
    pub fn options(self) -> (MeasureOptions, bool) {
        let what = What::Benchmark(Benchmark::Is(self.class));
        self.run.options(what)
    }
}

impl HaloArgs {
    /// See [`NpbArgs::options`].
    pub fn options(self) -> (MeasureOptions, bool) {
        let halo = Halo {
            steps: self.steps,
            dims: self.dims,
            residual_every: self.residual_every,
            periodic: !self.open,
            ..self.cells
        };
        let what = What::Benchmark(Benchmark::Halo(halo));
        self.run.options(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_others_refused_with_all_of_them() {
        assert_eq!("EP".parse(), Ok(Name::Of(Program::Ep)));
        assert_eq!("iS".parse(), Ok(Name::Is));
        assert_eq!("All".parse(), Ok(Name::All));
        let error = "xy".parse::<Name>().expect_err("there is no XY");
        assert!(
            error.contains("ep") && error.contains("is, or all"),
            "{error}"
        );
        for name in each() {
            assert!(name.parse::<Name>().is_ok());
            assert!(benchmark(name, npb::Class::S).is_ok());
        }
        assert!(benchmark("is", npb::Class::D).is_err());
    }
}
