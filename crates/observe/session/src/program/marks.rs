//! Marks of one thread: pairs starts with ends.

use idlewave_interpose::Mark;
use std::collections::HashMap;

/// Most regions open at once in a thread; more deeply nested ones are dropped.
const MOST_OPEN: usize = 4_096;

/// A stretch or a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub name: String,
    /// In the clock of the ring.
    pub begin: u64,
    pub end: Option<u64>,
}

/// Marks of one thread.
#[derive(Default)]
pub(super) struct Marks {
    names: HashMap<u32, String>,
    open: Vec<(u32, u64)>,
    /// Ends without a start, and starts beyond [`MOST_OPEN`].
    pub unpaired: u64,
}

impl Marks {
    /// Names the marks that have this number.
    pub fn name(&mut self, number: u32, name: String) {
        self.names.insert(number, name);
    }

    /// Adds a mark; returns the region that it completes.
    pub fn add(&mut self, what: Mark, number: u32, time: u64) -> Option<Stretch> {
        match what {
            Mark::Begin if self.open.len() < MOST_OPEN => {
                self.open.push((number, time));
                None
            }
            Mark::End => {
                let at = self.open.iter().rposition(|(open, _)| *open == number);
                let Some(at) = at else {
                    self.unpaired += 1;
                    return None;
                };
                let (_, begin) = self.open.remove(at);
                Some(self.stretch(number, begin, Some(time)))
            }
            Mark::Point => Some(self.stretch(number, time, Some(time))),
            Mark::Begin => {
                self.unpaired += 1;
                None
            }
        }
    }

    /// Regions that were never left.
    pub fn finish(&mut self) -> Vec<Stretch> {
        let open = std::mem::take(&mut self.open);
        open.into_iter()
            .map(|(number, begin)| self.stretch(number, begin, None))
            .collect()
    }

    fn stretch(&self, number: u32, begin: u64, end: Option<u64>) -> Stretch {
        let name = self.names.get(&number).cloned();
        Stretch {
            name: name.unwrap_or_else(|| format!("mark {number}")),
            begin,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_nest_and_recur_and_may_stay_open() {
        let mut marks = Marks::default();
        marks.name(1, "outer".to_owned());
        marks.name(2, "inner".to_owned());
        let mut out = Vec::new();
        for (what, number, time) in [
            (Mark::Begin, 1, 10),
            (Mark::Begin, 2, 20),
            (Mark::Begin, 2, 30),
            (Mark::End, 2, 40),
            (Mark::Point, 3, 45),
            (Mark::End, 2, 50),
            (Mark::End, 2, 60),
        ] {
            out.extend(marks.add(what, number, time));
        }
        out.extend(marks.finish());
        let rows: Vec<_> = out
            .iter()
            .map(|s| (s.name.as_str(), s.begin, s.end))
            .collect();
        assert_eq!(
            rows,
            [
                ("inner", 30, Some(40)),
                ("mark 3", 45, Some(45)),
                ("inner", 20, Some(50)),
                ("outer", 10, None),
            ]
        );
        assert_eq!(marks.unpaired, 1);
    }
}
