//! Fits a table, and predicts each of its rows from the others.

use super::table::{ContentionRow, ContentionTable, Exchange, TableError};
use super::terms::{Where, factors, transfers};
use crate::error::NetworkError;
use idlewave_simulate::collectives::Library;
use idlewave_stats::distributions::student_quantile;
use idlewave_units::counted;
use serde::Serialize;
use std::collections::BTreeSet;

/// The resource that the messages of a row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// One node: its memory.
    Node,
    /// Adapters of nodes.
    Adapters,
    /// Something above the adapters: all rows with this many nodes take more than twice as long as
    /// adapters explain.
    Above,
}

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Foretold {
    /// The prediction.
    pub seconds: f64,
    /// Range in which 19 of 20 measurements are expected, from the errors of the other rows of its
    /// family; `None` if there are fewer than two, or if it would extend to a factor of ten in
    /// either direction.
    pub interval: Option<(f64, f64)>,
}

/// A row with its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictedRow {
    /// The measurement.
    pub row: ContentionRow,
    /// The resource that its messages share.
    pub family: Family,
    /// Whether the user chose it for calibration: then its prediction is a fit.
    pub calibrates: bool,
    /// Seconds in collectives; `None` if not measured, or if no other row determines it.
    pub collective: Option<Foretold>,
    /// Total seconds; `None` if no other row determines it.
    pub total: Option<Foretold>,
}

/// Rows with the same node count whose bottleneck is above the adapters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Above {
    /// Number of nodes.
    pub nodes: u32,
    /// Smallest and largest measurement, seconds.
    pub measured: (f64, f64),
    /// Smallest and largest time explained by adapters, seconds.
    pub explained: (f64, f64),
    /// Bandwidth of one link between two halves of the nodes, per direction, that would take as
    /// long, bytes per second.
    pub link: Option<f64>,
}

/// The results for a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentionStudy {
    /// The table's name.
    pub name: String,
    /// Whether times in collectives are predicted, or only totals.
    pub has_collectives: bool,
    /// Bandwidth of an adapter per direction, bytes per second; `None` if the rows do not determine
    /// it.
    pub adapter: Option<f64>,
    /// Seconds that ranks wait for each other, in collectives over several nodes.
    pub waits: f64,
    /// Total computation of all ranks without interference, on several nodes, seconds; `None` if
    /// the rows do not determine it.
    pub work: Option<f64>,
    /// Relative increase of computation per further rank on a node.
    pub crowding: f64,
    /// Node counts with a bottleneck above the adapters.
    pub above: Vec<Above>,
    /// All rows, in the order of the table.
    pub rows: Vec<PredictedRow>,
}

impl ContentionStudy {
    /// Row count of a family and its mean relative errors: in collectives, total.
    pub fn mean_errors(&self, family: Family) -> (usize, Option<f64>, Option<f64>) {
        let of = self
            .rows
            .iter()
            .filter(|r| r.family == family && !r.calibrates);
        let mean = |errors: Vec<f64>| match errors.len() {
            0 => None,
            n => Some(errors.iter().map(|e| e.abs()).sum::<f64>() / n as f64),
        };
        let collective = of.clone().filter_map(PredictedRow::collective_error);
        let total = of.clone().filter_map(PredictedRow::total_error);
        (
            of.count(),
            mean(collective.collect()),
            mean(total.collect()),
        )
    }
}

impl PredictedRow {
    /// Predicted over measured seconds in collectives, minus 1.
    pub fn collective_error(&self) -> Option<f64> {
        Some(self.collective?.seconds / self.row.collective? - 1.0)
    }

    /// Predicted over measured total seconds, minus 1.
    pub fn total_error(&self) -> Option<f64> {
        Some(self.total?.seconds / self.row.total - 1.0)
    }
}

/// If all rows with a node count take more than this many times as long as adapters explain, the
/// bottleneck is above them.
const MUCH_LONGER: f64 = 2.0;
/// Intervals that extend to this factor in either direction are left out.
const MOST_FACTOR: f64 = 10.0;
/// Initial assumption for adapters: gigabit Ethernet.
const FIRST_ADAPTER: f64 = 125e6;

struct Fitting<'a> {
    rows: &'a [ContentionRow],
    /// For each row, seconds of its messages on adapters of `reference` bytes per second.
    transfers: Vec<f64>,
    /// The same on one link between two halves of the nodes, with a tenth of that bandwidth.
    halves: Vec<f64>,
    reference: f64,
    has_collectives: bool,
    family: Vec<Family>,
}

impl Fitting<'_> {
    /// The fitted time of a row.
    fn seconds(&self, at: usize) -> f64 {
        let row = &self.rows[at];
        row.collective
            .filter(|_| self.has_collectives)
            .unwrap_or(row.total)
    }

    fn computation(&self, at: usize) -> [f64; 2] {
        let row = &self.rows[at];
        let ranks = f64::from(row.ranks);
        [1.0 / ranks, f64::from(row.per_node - 1) / ranks]
    }

    /// Terms of a row: messages first.
    fn terms(&self, at: usize, family: Family) -> Vec<f64> {
        let mut terms = vec![self.transfers[at]];
        // On one node, the memory traffic of all messages alone fits published tables best.
        if family != Family::Node {
            terms.push(1.0);
        }
        if !self.has_collectives {
            terms.extend(self.computation(at));
        }
        terms
    }

    /// The fit of some rows.
    fn fit(&self, rows: &[usize], family: Family) -> Option<Vec<f64>> {
        let terms: Vec<Vec<f64>> = rows.iter().map(|at| self.terms(*at, family)).collect();
        let times: Vec<f64> = rows.iter().map(|at| self.seconds(*at)).collect();
        let least = if family == Family::Node { 1 } else { 2 };
        (rows.len() >= least)
            .then(|| factors(&terms, &times))
            .flatten()
    }

    fn of(&self, from: &[usize], family: Family, but: Option<usize>) -> Vec<usize> {
        let own = from.iter().copied();
        own.filter(|at| self.family[*at] == family && Some(*at) != but)
            .collect()
    }

    /// Time explained by adapters, seconds: total, and without messages.
    fn explained(&self, factors: &[f64], at: usize) -> (f64, f64) {
        let terms = self.terms(at, Family::Adapters);
        let sum: f64 = terms.iter().zip(factors).map(|(a, b)| a * b).sum();
        (sum, sum - terms[0] * factors[0])
    }

    /// Measured seconds on the link between halves over those in `halves`: the geometric mean.
    fn link(&self, factors: &[f64], rows: &[usize]) -> Option<f64> {
        let one = |at: &usize| {
            let (_, rest) = self.explained(factors, *at);
            Some((self.seconds(*at) - rest) / self.halves[*at]).filter(|f| *f > 0.0)
        };
        let logs: Vec<f64> = rows.iter().filter_map(one).map(f64::ln).collect();
        let count = logs.len() as f64;
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / count).exp())
    }

    /// Predicts a row from the rows of `from`, except `but`.
    fn predict(&self, at: usize, from: &[usize], but: Option<usize>) -> Option<f64> {
        let family = self.family[at];
        if family == Family::Node {
            let factors = self.fit(&self.of(from, family, but), family)?;
            let terms = self.terms(at, family);
            return Some(terms.iter().zip(&factors).map(|(a, b)| a * b).sum());
        }
        let factors = self.fit(&self.of(from, Family::Adapters, but), Family::Adapters)?;
        let (explained, rest) = self.explained(&factors, at);
        if family == Family::Adapters {
            return Some(explained);
        }
        let mut alike = self.of(from, family, but);
        alike.retain(|other| self.rows[*other].nodes == self.rows[at].nodes);
        let link = self.link(&factors, &alike);
        Some(link.map_or(explained, |f| explained.max(rest + f * self.halves[at])))
    }

    /// Rows with similar computation. Rows on one node may be limited by memory and say nothing
    /// about several nodes.
    fn alike(&self, at: usize, from: &[usize]) -> Vec<usize> {
        let one = |row: usize| self.family[row] == Family::Node;
        let rows = from.iter().copied();
        rows.filter(|row| one(*row) == one(at)).collect()
    }

    /// From these rows: work of all ranks together, and its increase per further rank on a node.
    fn work(&self, rows: &[usize]) -> Option<Vec<f64>> {
        let known = rows.iter().filter_map(|row| {
            Some((
                self.computation(*row).to_vec(),
                self.rows[*row].computation()?,
            ))
        });
        let (terms, times): (Vec<Vec<f64>>, Vec<f64>) = known.unzip();
        factors(&terms, &times)
    }

    /// Predicted seconds outside collectives: computation and point-to-point messages.
    fn others(&self, at: usize, from: &[usize], but: Option<usize>) -> Option<f64> {
        let mut alike = self.alike(at, from);
        alike.retain(|row| Some(*row) != but);
        let found = self.work(&alike)?;
        let terms = self.computation(at);
        let computation: f64 = terms.iter().zip(&found).map(|(a, b)| a * b).sum();
        let p2p = alike
            .iter()
            .filter_map(|row| self.rows[*row].point_to_point);
        let p2p: Vec<f64> = p2p.collect();
        let mean = p2p.iter().sum::<f64>() / (p2p.len().max(1)) as f64;
        Some(computation + mean)
    }
}

/// Fits the table and predicts each row from the others of its family, or, if `calibrate` names
/// rows by nodes and ranks per node, from these only.
///
/// # Errors
/// Fewer than three rows, an unknown row name, or rows that cannot be replayed.
pub fn study_contention(
    table: &ContentionTable,
    exchange: &Exchange,
    library: Library,
    calibrate: &[(u32, u32)],
) -> Result<ContentionStudy, NetworkError> {
    let few = |why: String| NetworkError::Samples(TableError::Few(why).to_string());
    let rows = &table.rows;
    if rows.len() < 3 {
        return Err(few(format!(
            "a study of {} is too small: each is predicted from the others",
            counted(rows.len(), "row")
        )));
    }
    let calibrates: Vec<bool> = rows
        .iter()
        .map(|row| calibrate.contains(&(row.nodes, row.per_node)))
        .collect();
    let missing = calibrate
        .iter()
        .find(|c| !rows.iter().any(|r| (r.nodes, r.per_node) == **c));
    if let Some((nodes, per_node)) = missing {
        return Err(few(format!(
            "no row has {nodes} nodes with {per_node} ranks on each"
        )));
    }
    let mut fitting = fitting(rows, exchange, library, FIRST_ADAPTER)?;
    let all: Vec<usize> = (0..rows.len()).collect();
    // Latencies depend on the adapters' bandwidth: repeat with the fitted one.
    if let Some(rate) = fitting.adapter(&all) {
        fitting = self::fitting(rows, exchange, library, rate)?;
    }
    let from: Vec<usize> = match calibrate.is_empty() {
        true => all.clone(),
        false => all.iter().copied().filter(|at| calibrates[*at]).collect(),
    };
    let predicted: Vec<(Option<f64>, Option<f64>)> = all
        .iter()
        .map(|&at| {
            let but = Some(at).filter(|_| !calibrates[at]);
            let seconds = fitting.predict(at, &from, but);
            let total = match fitting.has_collectives {
                false => seconds,
                true => seconds
                    .zip(fitting.others(at, &from, but))
                    .map(|(a, b)| a + b),
            };
            (seconds.filter(|_| fitting.has_collectives), total)
        })
        .collect();
    let collective = |at: usize| Some((predicted[at].0?, rows[at].collective?));
    let total = |at: usize| Some((predicted[at].1?, rows[at].total));
    let foretold = |at: usize, of: &dyn Fn(usize) -> Option<(f64, f64)>| {
        let (seconds, _) = of(at)?;
        let others = all.iter().filter(|other| {
            **other != at && !calibrates[**other] && fitting.family[**other] == fitting.family[at]
        });
        let errors: Vec<f64> = others
            .filter_map(|other| of(*other))
            .map(|(predicted, measured)| (measured / predicted).ln().powi(2))
            .collect();
        let count = errors.len() as f64;
        let interval = (errors.len() >= 2).then(|| {
            let deviation = (errors.iter().sum::<f64>() / count).sqrt();
            let factor = (student_quantile(0.975, count) * deviation).exp();
            // An interval this wide says nothing.
            (factor < MOST_FACTOR).then_some((seconds / factor, seconds * factor))
        });
        let interval = interval.flatten();
        Some(Foretold { seconds, interval })
    };
    let rows_predicted = all.iter().map(|&at| PredictedRow {
        row: rows[at].clone(),
        family: fitting.family[at],
        calibrates: calibrates[at],
        collective: foretold(at, &collective),
        total: foretold(at, &total),
    });
    let factors_of = fitting.fit(&fitting.of(&from, Family::Adapters, None), Family::Adapters);
    let several = from.iter().copied();
    let several: Vec<usize> = several
        .filter(|at| fitting.family[*at] != Family::Node)
        .collect();
    let work = fitting.work(&several);
    Ok(ContentionStudy {
        name: table.name.clone(),
        has_collectives: fitting.has_collectives,
        adapter: fitting.adapter(&from),
        waits: factors_of.as_ref().map_or(0.0, |f| f[1]),
        crowding: work
            .as_ref()
            .filter(|w| w[0] > 0.0)
            .map_or(0.0, |w| w[1] / w[0]),
        work: work.map(|w| w[0]),
        above: fitting.above(factors_of.as_deref()),
        rows: rows_predicted.collect(),
    })
}

impl Fitting<'_> {
    /// Bandwidth of an adapter from these rows.
    fn adapter(&self, from: &[usize]) -> Option<f64> {
        let factors = self.fit(&self.of(from, Family::Adapters, None), Family::Adapters)?;
        Some(self.reference / factors[0]).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    fn above(&self, factors: Option<&[f64]>) -> Vec<Above> {
        let Some(factors) = factors else {
            return Vec::new();
        };
        let rows = || (0..self.rows.len()).filter(|at| self.family[*at] == Family::Above);
        let nodes: BTreeSet<u32> = rows().map(|at| self.rows[at].nodes).collect();
        let span = |values: Vec<f64>| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            (least, values.into_iter().fold(0.0, f64::max))
        };
        nodes
            .into_iter()
            .map(|nodes| {
                let own: Vec<usize> = rows().filter(|at| self.rows[*at].nodes == nodes).collect();
                let explained = own.iter().map(|at| self.explained(factors, *at).0);
                Above {
                    nodes,
                    measured: span(own.iter().map(|at| self.seconds(*at)).collect()),
                    explained: span(explained.collect()),
                    link: self.link(factors, &own).map(|f| self.reference / 10.0 / f),
                }
            })
            .collect()
    }

    /// Moves rows out of the adapters' family, from the largest node count down, as long as the
    /// rows with fewer nodes do not explain them.
    fn find_above(&mut self) {
        let nodes: BTreeSet<u32> = self.rows.iter().map(|r| r.nodes).collect();
        for most in nodes.into_iter().rev().filter(|n| *n > 1) {
            let all: Vec<usize> = (0..self.rows.len()).collect();
            let fewer = self.of(&all, Family::Adapters, None);
            let (own, fewer): (Vec<usize>, Vec<usize>) = fewer
                .into_iter()
                .partition(|at| self.rows[*at].nodes == most);
            let numbers: BTreeSet<u32> = fewer.iter().map(|at| self.rows[*at].nodes).collect();
            if fewer.len() < 3 || numbers.len() < 2 {
                return;
            }
            let Some(factors) = self.fit(&fewer, Family::Adapters) else {
                return;
            };
            let much =
                |at: &usize| self.seconds(*at) > MUCH_LONGER * self.explained(&factors, *at).0;
            if !own.iter().all(much) {
                return;
            }
            for at in own {
                self.family[at] = Family::Above;
            }
        }
    }
}

fn fitting<'a>(
    rows: &'a [ContentionRow],
    exchange: &Exchange,
    library: Library,
    reference: f64,
) -> Result<Fitting<'a>, NetworkError> {
    let of = |slow: Where| -> Result<Vec<f64>, NetworkError> {
        rows.iter()
            .map(|row| transfers(row, exchange, library, slow))
            .collect()
    };
    let family = |row: &ContentionRow| match row.nodes {
        1 => Family::Node,
        _ => Family::Adapters,
    };
    let mut fitting = Fitting {
        rows,
        transfers: of(Where::Adapters(reference))?,
        halves: Vec::new(),
        reference,
        has_collectives: rows.iter().all(|r| r.collective.is_some()),
        family: rows.iter().map(family).collect(),
    };
    fitting.find_above();
    let halves = |(row, family): (&ContentionRow, &Family)| match family {
        Family::Above => {
            let (link, adapters) = (reference / 10.0, reference);
            transfers(row, exchange, library, Where::Halves { link, adapters })
        }
        // Not used.
        Family::Node | Family::Adapters => Ok(1.0),
    };
    fitting.halves = rows
        .iter()
        .zip(&fitting.family)
        .map(halves)
        .collect::<Result<_, _>>()?;
    Ok(fitting)
}
