//! A calibration as text for a terminal of 80 columns.

use crate::place::format::wrap;
use idlewave_network::{
    Calibration, CalibrationSamples, Distance, Origin, PointFit, Probe, Quantity,
};
use idlewave_units::{Bytes, BytesPerSecond, counted, show};

/// Bytes per second.
fn rate(value: f64) -> String {
    BytesPerSecond::scaled_text(value)
}

fn size(bytes: u64) -> String {
    Bytes::new(bytes).exact_text()
}

/// The complete text.
pub fn render(samples: &CalibrationSamples, found: &Calibration) -> String {
    let mut out = head(samples);
    for way in [Distance::Outside, Distance::Inside] {
        out.push_str(&streams(found, way));
    }
    out.push_str(&all_to_all(found));
    out.push_str(&memory(samples, found));
    out.push_str(&parameters(found));
    for warning in &found.warnings {
        wrap(&mut out, "", &format!("! {warning}"));
    }
    for note in &samples.notes {
        wrap(&mut out, "  ", note);
    }
    out
}

fn head(samples: &CalibrationSamples) -> String {
    let (nodes, each) = (samples.nodes.len(), samples.ranks_per_node);
    let shared = if samples.shared_cpus() {
        ", shared"
    } else {
        ""
    };
    let cut = if samples.interrupted {
        ", ended on request"
    } else {
        ""
    };
    let first: Vec<&str> = samples.nodes.iter().take(4).map(String::as_str).collect();
    let more = if nodes > 4 { ", ..." } else { "" };
    format!(
        "{} over {}\n{}: {}{more}; {} on each, {}{shared}\n{} in {}{cut}\n",
        counted(nodes as u32 * each, "rank"),
        samples.fabric,
        if nodes == 1 { "node" } else { "nodes" },
        first.join(", "),
        counted(each, "rank"),
        counted(samples.cpus_per_node, "CPU"),
        counted(samples.repetitions() as u32, "round"),
        show::seconds(samples.seconds),
    )
}

/// Bandwidth by the number of pairs, for the longest messages.
fn streams(found: &Calibration, wanted: Distance) -> String {
    let streams = |both: bool| -> Vec<(u32, u64, &PointFit)> {
        let of = |p: &PointFit| match p.probe {
            Probe::Stream {
                way,
                pairs,
                both_ways,
                bytes,
                ..
            } if way == wanted && both_ways == both => Some((pairs, bytes)),
            _ => None,
        };
        let points = found.points.iter();
        points
            .filter_map(|p| of(p).map(|(k, b)| (k, b, p)))
            .collect()
    };
    let (one, both) = (streams(false), streams(true));
    let Some(longest) = one.iter().map(|s| s.1).max() else {
        return String::new();
    };
    let mut out = format!(
        "\npairs of ranks {} at a time, messages of {}\n\
         \x20           one way, each     all    model   both ways, each     all    model\n",
        wanted.words(),
        size(longest)
    );
    for &(pairs, bytes, point) in one.iter().filter(|s| s.1 == longest) {
        let cells = |point: Option<&PointFit>, ways: f64| {
            let found = point.and_then(PointFit::bandwidth);
            let total = found.map(|(total, _)| total);
            let each = total.map(|total| total / ways / f64::from(pairs));
            let model = found.and_then(|(_, model)| model);
            [each, total, model].map(|value| value.map_or("-".to_owned(), rate))
        };
        let other = both
            .iter()
            .find(|s| s.0 == pairs && s.1 == bytes)
            .map(|s| s.2);
        let (a, b) = (cells(Some(point), 1.0), cells(other, 2.0));
        out.push_str(&format!(
            "{pairs:>7} {:>17}{:>10}{:>10}{:>13}{:>11}{:>10}\n",
            a[0], a[1], a[2], b[0], b[1], b[2]
        ));
    }
    out
}

/// The time of a call, by ranks per node.
fn all_to_all(found: &Calibration) -> String {
    let calls: Vec<(u32, u32, u64, &PointFit)> = found
        .points
        .iter()
        .filter_map(|p| match p.probe {
            Probe::AllToAll {
                nodes,
                per_node,
                bytes,
                ..
            } => Some((nodes, per_node, bytes, p)),
            _ => None,
        })
        .collect();
    let Some(nodes) = calls.first().map(|c| c.0) else {
        return String::new();
    };
    let mut lengths: Vec<u64> = calls.iter().map(|c| c.2).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut ranks: Vec<u32> = calls.iter().map(|c| c.1).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut out = format!(
        "\nall-to-all over {}\nranks of each",
        counted(nodes, "node")
    );
    for &bytes in &lengths {
        out.push_str(&format!("{:>14}{:>12}", size(bytes), "model"));
    }
    out.push('\n');
    for k in ranks {
        out.push_str(&format!("{k:>13}"));
        for &bytes in &lengths {
            let point = calls.iter().find(|c| c.1 == k && c.2 == bytes).map(|c| c.3);
            let measured = point.map_or("-".to_owned(), |p| show::seconds(p.seconds.value));
            let model = point.and_then(|p| p.model_seconds);
            let model = model.map_or("-".to_owned(), show::seconds);
            out.push_str(&format!("{measured:>14}{model:>12}"));
        }
        out.push('\n');
    }
    out
}

fn memory(samples: &CalibrationSamples, found: &Calibration) -> String {
    let passes: Vec<(u32, f64)> = found
        .points
        .iter()
        .filter_map(|p| match p.probe {
            Probe::Memory { ranks, .. } => Some((ranks, p.seconds.value)),
            _ => None,
        })
        .collect();
    let Some(&(_, alone)) = passes.iter().find(|p| p.0 == 1) else {
        return String::new();
    };
    let mut out =
        "\ncomputation that streams through memory\n  ranks      a pass    factor\n".to_owned();
    for (ranks, pass) in passes {
        let note = match ranks > samples.cpus_per_node {
            true => "  ranks wait for CPUs: not used",
            false => "",
        };
        let factor = show::digits(pass / alone);
        out.push_str(&format!(
            "{ranks:>7}{:>12}{factor:>10}{note}\n",
            show::seconds(pass)
        ));
    }
    out
}

/// All parameters with their names in the file, and whether each is a rate.
pub fn quantities(found: &Calibration) -> Vec<(&'static str, Quantity, bool)> {
    let p = &found.parameters;
    let mut all = vec![
        ("overhead", p.overhead_ns, false),
        ("inside.latency", p.inside.latency_ns, false),
        ("inside.bandwidth", p.inside.bandwidth, true),
        ("memory", p.memory, true),
        ("outside.latency", p.outside.latency_ns, false),
        ("outside.bandwidth", p.outside.bandwidth, true),
        ("hop", p.hop_ns, false),
        ("adapter.out", p.adapter.out, true),
        ("adapter.into", p.adapter.into, true),
    ];
    all.extend(p.adapter.both.map(|q| ("adapter.both", q, true)));
    all
}

fn parameters(found: &Calibration) -> String {
    let mut out = "\nparameter                 value              95 % interval\n".to_owned();
    let mut put = |name: &str, q: Quantity, shown: &dyn Fn(f64) -> String| {
        let range = match q.origin {
            Origin::Assumed => "assumed".to_owned(),
            _ => format!("{} - {}", shown(q.low), shown(q.high)),
        };
        out.push_str(&format!("{name:<19}{:>12}{range:>27}\n", shown(q.value)));
    };
    for (name, quantity, is_rate) in quantities(found) {
        match is_rate {
            true => put(name, quantity, &rate),
            false => put(name, quantity, &show::time),
        }
    }
    for (name, quantity) in [
        ("one pair, outside", found.stream_outside.map(|q| (q, true))),
        ("one pair, inside", found.stream_inside.map(|q| (q, true))),
        ("both over one way", found.both_over_one.map(|q| (q, false))),
    ] {
        match quantity {
            Some((quantity, true)) => put(name, quantity, &rate),
            Some((quantity, false)) => put(name, quantity, &show::factor),
            None => {}
        }
    }
    out.push_str(&format!(
        "eager limit {}; the model is typically off by {} between nodes,\n{} inside, {} of messages below 32 KiB\n\n",
        size(found.parameters.eager_limit),
        off_by(found.deviations.outside),
        off_by(found.deviations.inside),
        off_by(found.deviations.short),
    ));
    out
}

fn off_by(deviation: Option<f64>) -> String {
    deviation.map_or("(not measured)".to_owned(), |d| show::percent(d.exp_m1()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_on_one_node_is_told_as_one() {
        let mut samples = CalibrationSamples {
            idlewave: "0".to_owned(),
            fabric: "shared memory".to_owned(),
            nodes: vec!["n1".to_owned()],
            ranks_per_node: 1,
            cpus_per_node: 1,
            budget_seconds: 1.0,
            seconds: 0.5,
            interrupted: false,
            points: Vec::new(),
            notes: Vec::new(),
        };
        let first =
            "1 rank over shared memory\nnode: n1; 1 rank on each, 1 CPU\n0 rounds in 500 ms\n";
        assert_eq!(head(&samples), first);
        samples.nodes.push("n2".to_owned());
        samples.ranks_per_node = 2;
        let said = head(&samples);
        assert!(
            said.contains("\nnodes: n1, n2; 2 ranks on each, 1 CPU, shared\n"),
            "{said}"
        );
    }
}
