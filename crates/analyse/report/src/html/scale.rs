//! The prediction: curves, tables, and how well the model matched the measurement here.

use super::markup::{absent, caption, cell, escape, number, section as in_section, table};
use super::rate_law;
use crate::facts::{
    SHOWN_RANKS, at_ranks, misfit_sentence, not_predicted_sentence, slowdown, source_name,
    worst_point,
};
use idlewave_run::findings::{Curve, Estimate, Findings, Prediction};
use idlewave_units::show;
use idlewave_units::{grouped, named};

/// What this noise costs at scale.
pub(super) fn section(findings: &Findings) -> String {
    let Some(prediction) = &findings.prediction else {
        return in_section(
            "scale",
            "At scale",
            &absent(&not_predicted_sentence(findings)),
        );
    };
    let misfit =
        misfit_sentence(findings).map(|text| format!("<p class=\"alarm\">{}</p>\n", escape(&text)));
    let mut body = misfit.unwrap_or_default();
    body.push_str(&format!(
        "<p>Slow-down of a program that computes {} per step, if every CPU of a larger machine had the noise \
         measured here. Method: {}.</p>\n",
        number(
            "prediction.granularity",
            prediction.granularity.get(),
            &prediction.granularity.to_string()
        ),
        escape(prediction.method.trim_end_matches('.')),
    ));
    if !prediction.caveats.is_empty() {
        let items: String = prediction
            .caveats
            .iter()
            .map(|c| format!("<li>{}</li>", escape(c)))
            .collect();
        body.push_str(&format!(
            "<p class=\"note\">Limits of its truth:</p><ul class=\"note\">{items}</ul>\n"
        ));
    }
    body.push_str(&charts(findings, prediction));
    body.push_str(&curves(prediction));
    body.push_str(&checks(prediction));
    in_section("scale", "At scale", &body)
}

fn charts(findings: &Findings, prediction: &Prediction) -> String {
    let mut out = "<div class=\"pair\">\n".to_owned();
    if prediction.curves.iter().any(|c| !c.points.is_empty()) {
        out.push_str(
            "<div class=\"figure\"><h3>All sources, by topology</h3><div class=\"chart\" id=\"chart-curves\"></div>\
             <p class=\"caption\">Bands are 95 % intervals. Look for the number of ranks at which a curve leaves \
             the floor: from there on somebody is always late. Both scales are logarithmic; what is below 0.01 % is drawn there.</p></div>\n",
        );
    }
    if !prediction.without.is_empty() {
        out.push_str(
            "<div class=\"figure\"><h3>Without one source \
             <select id=\"without-topology\" aria-label=\"Topology\"></select></h3><div class=\"chart\" id=\"chart-without\"></div>\
             <p class=\"caption\">The lower a dashed curve lies below the full one, the more removing that source \
             brings at this size.</p></div>\n",
        );
    }
    if let Some(shown) = prediction
        .by_granularity
        .iter()
        .find(|c| !c.points.is_empty())
    {
        out.push_str(&format!(
            "<div class=\"figure\"><h3>By granularity, {} {}</h3><div class=\"chart\" id=\"chart-granularity\"></div>\
             <p class=\"caption\">More computation between two exchanges absorbs noise. Read off how much \
             your program needs for the slow-down you can bear; the upright line is the granularity measured here.</p></div>\n",
            grouped(shown.ranks), named(shown.ranks, "rank")));
    }
    if let Some(law) = &prediction.by_rate {
        out.push_str(&rate_law::figure(findings, law));
    }
    out + "</div>\n"
}

fn curves(prediction: &Prediction) -> String {
    let mut header = vec![(
        "Topology".to_owned(),
        "How ranks wait for each other".to_owned(),
    )];
    header.extend(SHOWN_RANKS.map(|r| {
        (
            format!("{} {}", grouped(r), named(r, "rank")),
            "Mean step over undisturbed step, less 1".to_owned(),
        )
    }));
    let header: Vec<(&str, &str)> = header
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let mut rows = String::new();
    for (i, curve) in prediction.curves.iter().enumerate() {
        rows.push_str(&row(
            curve.topology.label(),
            &format!("prediction.curves.{i}"),
            curve,
        ));
    }
    if let Some((worst, _)) = worst_point(prediction) {
        for (w, removed) in prediction.without.iter().enumerate() {
            if let Some(c) = removed.curves.iter().position(|c| c.topology == worst) {
                let name = format!(
                    "{} without {}",
                    worst.label(),
                    source_name(removed.kind, &removed.name)
                );
                rows.push_str(&row(
                    &name,
                    &format!("prediction.without.{w}.curves.{c}"),
                    &removed.curves[c],
                ));
            }
        }
    }
    table("", &header, &rows)
}

fn row(name: &str, path: &str, curve: &Curve) -> String {
    let mut out = format!("<tr><th scope=\"row\">{}</th>", escape(name));
    for shown in SHOWN_RANKS {
        let point = at_ranks(curve, shown)
            .and_then(|p| Some((curve.points.iter().position(|q| q == p)?, &p.slowdown)));
        out.push_str(&match point {
            None => cell(-1, "&ndash;"),
            Some((i, s)) => {
                let value = number(
                    &format!("{path}.points.{i}.slowdown.value"),
                    s.value,
                    &slowdown(s),
                );
                cell(
                    s.value,
                    &format!(
                        "{value} <small>{} to {}</small>",
                        end(s, s.low),
                        end(s, s.high)
                    ),
                )
            }
        });
    }
    out + "</tr>\n"
}

/// One end of a slow-down's interval, in HTML.
fn end(slowdown: &Estimate, end: f64) -> String {
    escape(&show::slowdown_beside(slowdown.value, end))
}

/// The runs made here, predicted and measured.
fn checks(prediction: &Prediction) -> String {
    if prediction.checks.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for (i, check) in prediction.checks.iter().enumerate() {
        let path = |field: &str| format!("prediction.checks.{i}.{field}");
        let p = &check.predicted;
        let meets = (p.low..=p.high).contains(&check.measured);
        rows.push_str(&format!(
            "<tr><th scope=\"row\">{}</th>{}{}{}<td class=\"text\">{}</td></tr>\n",
            escape(&check.name),
            cell(
                check.ranks,
                &number(&path("ranks"), check.ranks, &check.ranks.to_string())
            ),
            cell(
                check.measured,
                &number(
                    &path("measured"),
                    check.measured,
                    &show::slowdown(check.measured)
                )
            ),
            cell(
                p.value,
                &format!(
                    "{} <small>{} to {}</small>",
                    number(&path("predicted.value"), p.value, &show::slowdown(p.value)),
                    end(p, p.low),
                    end(p, p.high)
                )
            ),
            if meets {
                "inside the interval"
            } else {
                "outside the interval"
            },
        ));
    }
    let header = [
        ("Run", "Lockstep run made here"),
        ("Ranks", "Number of ranks"),
        ("Measured", "Slow-down measured"),
        ("Predicted", "Slow-down predicted, with its interval"),
        (
            "Verdict",
            "Whether the measurement lies in the interval of the prediction",
        ),
    ];
    format!(
        "<h3>Does the model meet the measurement?</h3>\n{}",
        table("", &header, &rows)
    ) + &caption(
        "The same model on the runs that were made here. Where it misses them, trust the curves above less.",
    )
}
