//! Fewer rows for the same gangs.

use super::grid::{Cell, Matrix, RowId};
use crate::GangId;

/// A gang that changes its row. Its slots stay, so nothing has to be carried anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The gang.
    pub gang: GangId,
    /// Its row before.
    pub from: RowId,
    /// Its row now.
    pub to: RowId,
}

impl Matrix {
    /// Empties rows, the last one first, as far as all gangs of a row find their slots free in earlier rows. A row that would stay is left alone: a gang
    /// that has room in another row runs there anyway, as an alternate. Gives the moves made.
    pub fn compact(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        for at in (1..self.rows.len()).rev() {
            let from = self.rows[at].id;
            let mut earlier = self.rows[..at].to_vec();
            let gangs: Vec<GangId> = self
                .gangs
                .iter()
                .filter(|(_, home)| home.row == from)
                .map(|(gang, _)| *gang)
                .collect();
            let mut found = Vec::new();
            for gang in &gangs {
                let columns = &self.gangs[gang].columns;
                let Some(row) = earlier.iter_mut().find(|row| row.free(columns)) else {
                    break;
                };
                for column in columns {
                    row.cells[*column] = Some(Cell::Home(*gang));
                }
                found.push(Move {
                    gang: *gang,
                    from,
                    to: row.id,
                });
            }
            if found.len() < gangs.len() {
                continue;
            }
            for step in &found {
                if let Some(home) = self.gangs.get_mut(&step.gang) {
                    home.row = step.to;
                }
            }
            self.rows.splice(..at, earlier);
            self.rows.remove(at);
            moves.extend(found);
        }
        self.alternate();
        moves
    }
}
