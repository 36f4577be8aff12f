//! A table of measured times as CSV.

use idlewave_units::counted;
use idlewave_units::foreign::cut;
use std::collections::HashMap;
use thiserror::Error;

/// Why a table of measured times is invalid. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// A missing column.
    #[error("find the column {0} in the first line")]
    Column(&'static str),
    /// An invalid row.
    #[error("read line {line}: {why}")]
    Row {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Too few rows to fit.
    #[error("fit the table: {0}")]
    Few(String),
}

/// The program's all-to-alls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Bytes that all ranks together exchange in one all-to-all, including those that stay on a
    /// rank.
    pub bytes: f64,
    /// Number of all-to-alls.
    pub calls: f64,
}

/// A measured row.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentionRow {
    /// Its line, from 1.
    pub line: usize,
    /// Ranks.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// Most ranks on a node.
    pub per_node: u32,
    /// Total seconds.
    pub total: f64,
    /// Seconds in collectives; `None` if not given.
    pub collective: Option<f64>,
    /// Seconds in point-to-point messages; `None` if not given.
    pub point_to_point: Option<f64>,
}

impl ContentionRow {
    /// Seconds in neither; `None` if unknown, or if clocks of different ranks make them negative.
    pub fn computation(&self) -> Option<f64> {
        let rest = self.total - self.collective? - self.point_to_point.unwrap_or(0.0);
        Some(rest).filter(|rest| *rest > 0.0)
    }
}

/// Rows of one network and one problem.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentionTable {
    /// The columns `network` and `class` of its rows; empty without them.
    pub name: String,
    /// The column `class`; `None` without it.
    pub class: Option<String>,
    /// In the order of the file.
    pub rows: Vec<ContentionRow>,
}

/// Most rows of a table, since each is replayed.
const MOST_ROWS: usize = 1_000;
/// Most ranks of a row: the number of messages of an all-to-all is their square.
const MOST_RANKS: u32 = 1_024;

/// Fields of a line: commas, with optional quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => {
                if let Some(last) = fields.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    for field in &mut fields {
        *field = field.trim().to_owned();
    }
    fields
}

/// Reads a table. The first line names the columns: `P` or `ranks`, `nodes`, `k`, `ppn` or
/// `per_node`, `total_s` or `total`; optional are `collective_s`, `p2p_s`, and `network` and
/// `class`, which separate tables. Other columns are ignored.
///
/// # Errors
/// A missing column, or an invalid row, with its line.
pub fn read_contention(text: &str) -> Result<Vec<ContentionTable>, TableError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, l)| {
        let line = l.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let (_, head) = lines.next().ok_or(TableError::Column("P"))?;
    let head: Vec<String> = fields(head.trim_start_matches('\u{feff}'))
        .iter()
        .map(|f| f.to_ascii_lowercase())
        .collect();
    let column = |names: &[&str]| head.iter().position(|h| names.contains(&h.as_str()));
    let needed = |name, names: &[&str]| column(names).ok_or(TableError::Column(name));
    let ranks = needed("P", &["p", "ranks", "np"])?;
    let nodes = needed("nodes", &["nodes", "n"])?;
    let per_node = needed("k", &["k", "ppn", "per_node", "ranks_per_node"])?;
    let total = needed("total_s", &["total_s", "total", "seconds", "time_s"])?;
    let collective = column(&["collective_s", "collective", "collectives_s"]);
    let p2p = column(&["p2p_s", "p2p", "point_to_point_s", "point_to_point"]);
    let names = [column(&["network"]), column(&["class"])];
    let mut tables: Vec<ContentionTable> = Vec::new();
    let mut places: HashMap<[String; 2], usize> = HashMap::new();
    let mut count = 0;
    for (line, text) in lines {
        let wrong = |why: String| TableError::Row { line, why };
        let fields = fields(text);
        let text = |at: usize| fields.get(at).map_or("", String::as_str);
        let number = |at: usize| {
            let number = text(at).parse::<u32>().ok();
            let number = number.filter(|n| (1..=MOST_RANKS).contains(n));
            number.ok_or_else(|| {
                let (name, text) = (&head[at], cut(text(at)));
                wrong(format!(
                    "{name} is {text:?}, expected a number from 1 to {MOST_RANKS}"
                ))
            })
        };
        let seconds = |at: usize| {
            let seconds = text(at).parse::<f64>().ok();
            let seconds = seconds.filter(|s| s.is_finite() && *s > 0.0 && *s < 1e9);
            seconds.ok_or_else(|| {
                let (name, text) = (&head[at], cut(text(at)));
                wrong(format!(
                    "{name} is {text:?}, expected a number of seconds above 0"
                ))
            })
        };
        let maybe = |at: Option<usize>| match at {
            Some(at) if !text(at).is_empty() => seconds(at).map(Some),
            _ => Ok(None),
        };
        let row = ContentionRow {
            line,
            ranks: number(ranks)?,
            nodes: number(nodes)?,
            per_node: number(per_node)?,
            total: seconds(total)?,
            collective: maybe(collective)?,
            point_to_point: maybe(p2p)?,
        };
        if row.nodes != row.ranks.div_ceil(row.per_node) {
            return Err(wrong(format!(
                "{} with {} on each node take {}, not {}",
                counted(row.ranks, "rank"),
                row.per_node,
                counted(row.ranks.div_ceil(row.per_node), "node"),
                row.nodes
            )));
        }
        count += 1;
        if count > MOST_ROWS {
            return Err(wrong(format!("a table has at most {MOST_ROWS} rows")));
        }
        let key = names.map(|at| at.map_or("", |at| text(at)).to_owned());
        let place = *places.entry(key.clone()).or_insert_with(|| {
            let named = key.iter().filter(|k| !k.is_empty()).cloned();
            tables.push(ContentionTable {
                name: named.collect::<Vec<_>>().join(", class "),
                class: Some(key[1].clone()).filter(|class| !class.is_empty()),
                rows: Vec::new(),
            });
            tables.len() - 1
        });
        if let Some(table) = tables.get_mut(place) {
            table.rows.push(row);
        }
    }
    match tables.is_empty() {
        true => Err(TableError::Few("it has no rows".to_owned())),
        false => Ok(tables),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart_by_network_and_class_and_may_have_quotes() {
        let text = "# x\nnetwork,class,P,nodes,ppn,total_s,collective_s,note\n\
                    ib,C,8,2,4,1.5,0.5,\"a, b\"\nib,D,8,8,1,2,,\nib,C,7,2,4,3,1,\n";
        let tables = read_contention(text).unwrap();
        let names: Vec<&str> = tables.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["ib, class C", "ib, class D"]);
        assert_eq!(tables[0].rows.len(), 2);
        assert_eq!(tables[0].rows[0].computation(), Some(1.0));
        assert_eq!(tables[1].rows[0].collective, None);
        let plain = read_contention("ranks,nodes,k,total\n4,2,2,1\n").unwrap();
        assert_eq!((plain[0].name.as_str(), &plain[0].class), ("", &None));
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        let head = "P,nodes,k,total_s\n";
        for (text, part) in [
            ("P,nodes,total_s\n".to_owned(), "the column k"),
            (String::new(), "the column P"),
            (head.to_owned(), "it has no rows"),
            (format!("{head}8,2,4,fast\n"), "line 2: total_s is \"fast\""),
            (format!("{head}8,2,4,1\n0,2,4,1\n"), "line 3: p is \"0\""),
            (
                format!("{head}8,3,4,1\n"),
                "8 ranks with 4 on each node take 2 nodes, not 3",
            ),
            (format!("{head}8,2\n"), "line 2: k is \"\""),
        ] {
            let error = read_contention(&text).unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
