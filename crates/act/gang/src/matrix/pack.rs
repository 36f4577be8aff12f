//! Selection of a row and slots for a gang.

use super::demand::{Demand, Packing};
use super::error::MatrixError;
use super::grid::{Cell, Matrix, Row};
use crate::GangId;
use idlewave_units::NodeId;
use std::collections::BTreeSet;

/// A row (`None`: a new one), and columns in order.
pub(super) type Fit = (Option<usize>, Vec<usize>);

impl Matrix {
    pub(super) fn fit(&self, gang: GangId, demand: &Demand) -> Result<Fit, MatrixError> {
        let fit = match demand {
            Demand::On(nodes) => {
                self.check(gang, nodes)?;
                self.first(|row| self.on(row, nodes))
            }
            Demand::Any { nodes, ranks } => {
                let (nodes, ranks) = (*nodes, *ranks);
                if nodes == 0 || ranks == 0 {
                    return Err(MatrixError::Empty(gang));
                }
                let whole = 0..self.nodes();
                let large = whole
                    .clone()
                    .filter(|n| self.slots(NodeId::new(*n as u32)) >= ranks)
                    .count();
                if large < nodes as usize {
                    return Err(MatrixError::TooFewNodes {
                        gang,
                        wanted: nodes,
                        ranks,
                        nodes: large,
                    });
                }
                let among = match self.packing {
                    Packing::FirstFit => whole,
                    Packing::Buddy => self.block(nodes, ranks).unwrap_or(whole),
                };
                self.first(|row| self.among(row, among.clone(), nodes, ranks))
            }
        };
        fit.ok_or(MatrixError::Full {
            gang,
            rows: self.limit,
        })
    }

    fn check(&self, gang: GangId, nodes: &[(NodeId, u32)]) -> Result<(), MatrixError> {
        let mut seen = BTreeSet::new();
        for (node, ranks) in nodes {
            let (node, ranks) = (*node, *ranks);
            if node.index() >= self.nodes() {
                return Err(MatrixError::NoSuchNode {
                    gang,
                    node,
                    nodes: self.nodes(),
                });
            }
            if !seen.insert(node) {
                return Err(MatrixError::Twice { gang, node });
            }
            let slots = self.slots(node);
            if ranks > slots {
                return Err(MatrixError::TooFewSlots {
                    gang,
                    node,
                    ranks,
                    slots,
                });
            }
        }
        if nodes.iter().all(|(_, ranks)| *ranks == 0) {
            return Err(MatrixError::Empty(gang));
        }
        Ok(())
    }

    /// The first row in which it fits, or a new one.
    fn first(&self, columns: impl Fn(Option<&Row>) -> Option<Vec<usize>>) -> Option<Fit> {
        let old = self
            .rows
            .iter()
            .enumerate()
            .find_map(|(at, row)| Some((Some(at), columns(Some(row))?)));
        match old {
            Some(fit) => Some(fit),
            None if self.rows.len() < self.limit => Some((None, columns(None)?)),
            None => None,
        }
    }

    /// The first free columns of a node; `None`: fewer than requested.
    fn free(&self, row: Option<&Row>, node: usize, ranks: u32) -> Option<Vec<usize>> {
        let free: Vec<usize> = (self.columns[node]..self.columns[node + 1])
            .filter(|c| row.is_none_or(|row| !matches!(row.cells[*c], Some(Cell::Home(_)))))
            .take(ranks as usize)
            .collect();
        (free.len() == ranks as usize).then_some(free)
    }

    fn on(&self, row: Option<&Row>, nodes: &[(NodeId, u32)]) -> Option<Vec<usize>> {
        let mut columns = Vec::new();
        for (node, ranks) in nodes {
            columns.extend(self.free(row, node.index(), *ranks)?);
        }
        columns.sort_unstable();
        Some(columns)
    }

    fn among(
        &self,
        row: Option<&Row>,
        among: std::ops::Range<usize>,
        nodes: u32,
        ranks: u32,
    ) -> Option<Vec<usize>> {
        let mut columns = Vec::new();
        let mut found = 0;
        for node in among {
            if found == nodes {
                break;
            }
            if let Some(free) = self.free(row, node, ranks) {
                columns.extend(free);
                found += 1;
            }
        }
        (found == nodes).then_some(columns)
    }

    /// The block for this many nodes. `None`: no aligned block has enough nodes with that many
    /// slots (the last block may be cut short).
    fn block(&self, nodes: u32, ranks: u32) -> Option<std::ops::Range<usize>> {
        let size = (nodes as usize).next_power_of_two();
        (0..self.nodes())
            .step_by(size)
            .map(|start| start..(start + size).min(self.nodes()))
            .filter(|block| self.among(None, block.clone(), nodes, ranks).is_some())
            .min_by_key(|block| self.height(block.clone()))
    }

    /// Rows with a home in a block.
    fn height(&self, block: std::ops::Range<usize>) -> usize {
        let columns = self.columns[block.start]..self.columns[block.end];
        let home = |cell: &Option<Cell>| matches!(cell, Some(Cell::Home(_)));
        self.rows
            .iter()
            .filter(|row| row.cells[columns.clone()].iter().any(home))
            .count()
    }
}
