//! Rows, slots and their gangs.

use super::demand::{Demand, Packing};
use super::error::MatrixError;
use crate::GangId;
use idlewave_units::NodeId;
use std::collections::BTreeMap;
use std::fmt;

/// A row, by a number that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u32);

impl RowId {
    /// Wraps a number, for rows of another matrix.
    pub const fn new(number: u32) -> RowId {
        RowId(number)
    }
    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The home of a gang. Its slots stay the same until it leaves, since processes are pinned to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its row.
    pub row: RowId,
    /// Its slots (node, slot of the node from 0), in order.
    pub slots: Vec<(NodeId, u32)>,
    /// The same slots as column indices.
    pub(super) columns: Vec<usize>,
}

/// The gang in a slot of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A gang at home.
    Home(GangId),
    /// A gang whose home is another row.
    Alternate(GangId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: RowId,
    pub(super) cells: Vec<Option<Cell>>,
}

impl Row {
    /// Whether no home is in any of these columns.
    pub(super) fn free(&self, columns: &[usize]) -> bool {
        columns
            .iter()
            .all(|column| !matches!(self.cells[*column], Some(Cell::Home(_))))
    }
}

/// The matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// First column of each node, plus one past the last node.
    pub(super) columns: Vec<usize>,
    pub(super) limit: usize,
    pub(super) packing: Packing,
    pub(super) rows: Vec<Row>,
    pub(super) gangs: BTreeMap<GangId, Home>,
    next: u32,
}

impl Matrix {
    /// An empty matrix over nodes with this many slots each, with at most `rows` rows.
    pub fn new(slots: &[u32], rows: usize, packing: Packing) -> Matrix {
        let mut columns = vec![0];
        let mut sum = 0;
        for slots in slots {
            sum += *slots as usize;
            columns.push(sum);
        }
        Matrix {
            columns,
            limit: rows,
            packing,
            rows: Vec::new(),
            gangs: BTreeMap::new(),
            next: 0,
        }
    }

    /// Nodes.
    pub fn nodes(&self) -> usize {
        self.columns.len() - 1
    }

    /// Slots of a node; 0 if it does not exist.
    pub fn slots(&self, node: NodeId) -> u32 {
        match (
            self.columns.get(node.index()),
            self.columns.get(node.index() + 1),
        ) {
            (Some(start), Some(end)) => (end - start) as u32,
            _ => 0,
        }
    }

    /// Rows, in packing order. None is empty.
    pub fn rows(&self) -> impl Iterator<Item = RowId> + '_ {
        self.rows.iter().map(|row| row.id)
    }

    /// Gangs, by number, with their homes.
    pub fn gangs(&self) -> impl Iterator<Item = (GangId, &Home)> + '_ {
        self.gangs.iter().map(|(gang, home)| (*gang, home))
    }

    /// The home of a gang. `None`: it is not in the matrix.
    pub fn home(&self, gang: GangId) -> Option<&Home> {
        self.gangs.get(&gang)
    }

    /// The gang in a slot. `None`: the slot is free, or there is no such row or slot.
    pub fn cell(&self, row: RowId, node: NodeId, slot: u32) -> Option<Cell> {
        if slot >= self.slots(node) {
            return None;
        }
        let column = self.columns[node.index()] + slot as usize;
        self.rows.iter().find(|r| r.id == row)?.cells[column]
    }

    /// The gangs that run when a row has its turn: those at home by number, then alternates by
    /// number. Empty if there is no such row.
    pub fn running(&self, row: RowId) -> Vec<GangId> {
        let Some(row) = self.rows.iter().find(|r| r.id == row) else {
            return Vec::new();
        };
        let (mut homes, mut alternates) = (Vec::new(), Vec::new());
        for (gang, home) in &self.gangs {
            match home.columns.first().and_then(|first| row.cells[*first]) {
                Some(Cell::Home(g)) if g == *gang => homes.push(*gang),
                Some(Cell::Alternate(g)) if g == *gang => alternates.push(*gang),
                _ => {}
            }
        }
        homes.extend(alternates);
        homes
    }

    /// Slots in use and slots in total, over all rows; homes and alternates count alike.
    pub fn utilisation(&self) -> (usize, usize) {
        let used = |row: &Row| row.cells.iter().flatten().count();
        (
            self.rows.iter().map(used).sum(),
            self.rows.iter().map(|row| row.cells.len()).sum(),
        )
    }

    /// Places a gang; returns its row.
    ///
    /// # Errors
    /// It is already there, requests what no row can provide, or all rows are full. Then the matrix
    /// is unchanged.
    pub fn insert(&mut self, gang: GangId, demand: &Demand) -> Result<RowId, MatrixError> {
        if self.gangs.contains_key(&gang) {
            return Err(MatrixError::Present(gang));
        }
        let (row, columns) = self.fit(gang, demand)?;
        let at = match row {
            Some(at) => at,
            None => {
                self.rows.push(Row {
                    id: RowId(self.next),
                    cells: vec![None; self.columns.last().copied().unwrap_or(0)],
                });
                self.next += 1;
                self.rows.len() - 1
            }
        };
        let id = self.rows[at].id;
        for column in &columns {
            self.rows[at].cells[*column] = Some(Cell::Home(gang));
        }
        let home = Home {
            row: id,
            slots: columns.iter().map(|c| self.slot(*c)).collect(),
            columns,
        };
        self.gangs.insert(gang, home);
        self.alternate();
        Ok(id)
    }

    /// Removes a gang from all rows. An empty row is removed.
    ///
    /// # Errors
    /// It is not there.
    pub fn remove(&mut self, gang: GangId) -> Result<(), MatrixError> {
        let Some(home) = self.gangs.remove(&gang) else {
            return Err(MatrixError::Absent(gang));
        };
        for row in &mut self.rows {
            for column in &home.columns {
                let cell = &mut row.cells[*column];
                if matches!(cell, Some(Cell::Home(g) | Cell::Alternate(g)) if *g == gang) {
                    *cell = None;
                }
            }
        }
        self.drop_empty();
        self.alternate();
        Ok(())
    }

    /// Node and slot of a column.
    fn slot(&self, column: usize) -> (NodeId, u32) {
        let node = self.columns.partition_point(|start| *start <= column) - 1;
        (
            NodeId::new(node as u32),
            (column - self.columns[node]) as u32,
        )
    }

    /// Rows without a home.
    pub(super) fn drop_empty(&mut self) {
        let home = |cell: &Option<Cell>| matches!(cell, Some(Cell::Home(_)));
        self.rows.retain(|row| row.cells.iter().any(home));
    }

    /// Refills the slots that homes leave free. Each row tries the gangs in rotation, starting
    /// after its first gang at home, so that no gang is first everywhere.
    pub(super) fn alternate(&mut self) {
        let gangs = &self.gangs;
        for row in &mut self.rows {
            for cell in &mut row.cells {
                if matches!(cell, Some(Cell::Alternate(_))) {
                    *cell = None;
                }
            }
            let own = row.cells.iter().flatten().find_map(|cell| match cell {
                Cell::Home(gang) => Some(*gang),
                Cell::Alternate(_) => None,
            });
            let Some(own) = own else { continue };
            let turn = gangs.range(own..).chain(gangs.range(..own));
            for (gang, home) in turn {
                if home.columns.iter().all(|c| row.cells[*c].is_none()) {
                    for column in &home.columns {
                        row.cells[*column] = Some(Cell::Alternate(*gang));
                    }
                }
            }
        }
    }
}
