//! `idlewave measure smt`: the other hardware threads of the cores idle, free or busy.

use super::shared::{OutputArgs, failure};
use crate::compare::print_comparison;
use crate::exit::Failure;
use crate::json::{Begun, print_below};
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use idlewave_measure::What;
use idlewave_measure::smt::{Siblings, render_smt, smt};
use idlewave_run::{Coupling, ExchangeVariant};
use idlewave_session::Stop;
use idlewave_units::Nanos;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
One rank per core computes and exchanges messages with its neighbours, in rounds \
in which idle, free and busy siblings take turns. It needs a machine whose cores \
have several hardware threads (SMT, hyper-threading).

To compare SMT on with SMT off, where it can be switched: the administrator \
switches it in /sys/devices/system/cpu/smt/control; record a run with each \
setting, and give both to `idlewave compare`, or files with times to \
`idlewave measure step`.")]
pub struct SmtArgs {
    /// Time per state of the siblings, from 100ms to 60min
    #[arg(long, default_value = "3s", value_name = "TIME")]
    duration: Nanos,
    /// Computation per iteration, from 1us to 1s
    #[arg(long, default_value = "20us", value_name = "TIME")]
    work: Nanos,
    #[command(flatten)]
    output: OutputArgs,
    /// Directory for a run, for explain and report; must not exist, or be empty
    #[arg(short, long = "output", value_name = "RUN")]
    run: Option<PathBuf>,
    /// With -o, do not trace the kernel (causes will have no names)
    #[arg(long, requires = "run")]
    no_trace: bool,
}

impl SmtArgs {
    /// Runs the command.
    pub fn run(self, stop: &Stop) -> Result<(), Failure> {
        let (mut options, json) = self.output.options(What::Lockstep {
            coupling: Coupling::Neighbours,
            dims: 1,
            variants: vec![ExchangeVariant::NonBlocking],
            bytes: None,
        });
        options.duration = self.duration;
        options.work = self.work;
        options.output = self.run;
        options.trace = !self.no_trace;
        let begun = Begun::now();
        let bars = Bars::new(!json);
        let done = smt(&options, stop, &bars);
        bars.finish();
        let found = done.map_err(failure)?;
        if json {
            let hosts = vec![found.node.clone()];
            let header = begun.header(hosts, found.interrupted, &found.machine);
            return print_below(header, &found);
        }
        print(&render_smt(&found))?;
        for state in &found.states {
            if let Some(comparison) = &state.against_idle {
                let names = [Siblings::Idle, state.siblings].map(|s| s.name().to_owned());
                print("\n")?;
                print_comparison(&names, comparison)?;
            }
        }
        match &found.bundle {
            Some(bundle) => print(&format!(
                "\nto see the causes: idlewave explain {}\n",
                bundle.display()
            )),
            None => Ok(()),
        }
    }
}
