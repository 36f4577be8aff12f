//! `idlewave simulate stencil` and `collective`: turns options into a plan, and prints and writes
//! its answers.

use super::options::{CollectiveArgs, CommonArgs, StencilArgs};
use super::plan::{self, Plan};
use super::question::{Outcome, Subject, ask};
use super::{files, output};
use crate::exit::Failure;
use crate::output::print;
use idlewave_session::Stop;

/// Runs `simulate stencil`.
pub fn run_stencil(args: &StencilArgs, stop: &Stop) -> Result<(), Failure> {
    run(&args.common, output::stencil(args), stop, || {
        plan::stencil(args)
    })
}

/// Runs `simulate collective`.
pub fn run_collective(args: &CollectiveArgs, stop: &Stop) -> Result<(), Failure> {
    run(&args.common, output::collective(args), stop, || {
        plan::collective(args)
    })
}

fn run(
    common: &CommonArgs,
    what: String,
    stop: &Stop,
    plan: impl FnOnce() -> Result<Plan, Failure>,
) -> Result<(), Failure> {
    let model = plan::model(&common.noise, common.effort.seed, stop)?;
    common.files.refuse(&common.ranks, &model)?;
    let subject = Subject::of(what, common, &model);
    let Plan { points, deep } = plan()?;
    let outcome = ask(points, Some(deep), &subject, &stop.flag)?;
    show(&subject, &outcome)?;
    finish(common, &subject, &outcome, stop)
}

/// Writes the requested files, and says so unless the output is JSON.
fn finish(
    common: &CommonArgs,
    subject: &Subject<'_>,
    outcome: &Outcome,
    stop: &Stop,
) -> Result<(), Failure> {
    let said = files::write(&common.files, subject, outcome, &stop.flag)?;
    match said.is_empty() || common.effort.json {
        true => Ok(()),
        false => print(&format!("\n{said}")),
    }
}

fn show(subject: &Subject<'_>, outcome: &Outcome) -> Result<(), Failure> {
    match subject.effort.json {
        true => crate::json::print_computed(output::value(subject, outcome)),
        false => print(&output::text(subject, outcome)),
    }
}
