//! What is said of the cost of a step against the rate of the noise.

use idlewave_run::findings::{Findings, LockstepFindings, MeasuredRates, RateLaw};
use idlewave_units::show;
use idlewave_units::{counted, grouped};

/// Name of the lockstep run whose ranks wait for their neighbours.
pub(crate) const EXCHANGE: &str = "neighbour exchange";

/// How the simulated cost of a step grows with the rate of the noise.
pub(crate) fn rate_law_sentence(law: &RateLaw) -> String {
    let Some(exponent) = &law.exponent else {
        let why = law.unknown.as_deref().unwrap_or("too few points");
        return format!("how the cost grows with the rate of this noise cannot be said: {why}");
    };
    let [value, low, high] = [exponent.value, exponent.low, exponent.high].map(show::digits);
    let law_holds = match law.square_root {
        Some((from, to)) => format!(
            "the square-root law holds from {} to {} strikes per rank and step",
            show::digits(from),
            show::digits(to)
        ),
        None => "it does not follow the square-root law".to_owned(),
    };
    format!(
        "on {} ranks this noise costs its rate to the power {value} ({low} to {high}); {law_holds}",
        grouped(law.ranks)
    )
}

/// What waiting for others makes of the strikes at the measured rate; `None` if it is not known.
pub(crate) fn amplified_sentence(law: &RateLaw) -> Option<String> {
    let here = law.points.iter().find(|p| p.factor == 1.0)?;
    let times = here.extra.value / here.taken.filter(|&ns| ns > 0.0)?;
    Some(format!(
        "at the measured {} strikes per rank and step it costs {} what strikes take from a rank",
        show::digits(here.strikes),
        show::factor(times)
    ))
}

/// The lockstep run that shows what a step cost at different rates: the exchange with neighbours, if
/// there is one.
pub(crate) fn measured_rates(findings: &Findings) -> Option<(&LockstepFindings, &MeasuredRates)> {
    let known = || {
        let runs = findings.lockstep.iter();
        runs.filter_map(|run| Some((run, run.by_rate.as_ref()?)))
    };
    known()
        .find(|(run, _)| run.name == EXCHANGE)
        .or(known().next())
}

/// How the measured cost of a step grows with the rate; `None` if no run shows it.
pub(crate) fn measured_rates_sentence(findings: &Findings) -> Option<String> {
    let (run, found) = measured_rates(findings)?;
    let ranks = counted(run.ranks, "rank");
    let windows = counted(found.windows, "window");
    let steps = counted(found.steps, "step");
    Some(match (&found.exponent, &found.unknown) {
        (Some(e), _) => {
            let [value, low, high] = [e.value, e.low, e.high].map(show::digits);
            format!(
                "measured on {ranks} ({}): to the power {value} ({low} to {high}), {windows} of {steps}",
                run.name
            )
        }
        (None, why) => format!(
            "measured on {ranks} ({}), {windows} of {steps}: no exponent, {}",
            run.name,
            why.as_deref().unwrap_or("too few windows")
        ),
    })
}
