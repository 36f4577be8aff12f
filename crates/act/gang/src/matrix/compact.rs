//! Compaction: fewer rows for the same gangs.

use super::grid::{Cell, Matrix, RowId};
use crate::GangId;

/// A gang that moves to another row. It keeps its slots, so nothing has to migrate.
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
    /// Empties rows, the last one first, if all gangs of a row find their slots free in earlier
    /// rows. Other rows are left alone: their gangs already run as alternates wherever there is
    /// room. Returns the moves.
    pub fn compact(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        for at in (1..self.rows.len()).rev() {
            let from = self.rows[at].id;
            let earlier = &self.rows[..at];
            // Gangs of one row share no slots, so none takes another one's place.
            let found: Option<Vec<(GangId, usize)>> = self
                .gangs
                .iter()
                .filter(|(_, home)| home.row == from)
                .map(|(gang, home)| {
                    let to = earlier.iter().position(|row| row.free(&home.columns))?;
                    Some((*gang, to))
                })
                .collect();
            let Some(found) = found else { continue };
            for (gang, to) in found {
                let Some(home) = self.gangs.get_mut(&gang) else {
                    continue;
                };
                let row = &mut self.rows[to];
                for column in &home.columns {
                    row.cells[*column] = Some(Cell::Home(gang));
                }
                home.row = row.id;
                moves.push(Move {
                    gang,
                    from,
                    to: row.id,
                });
            }
            self.rows.remove(at);
        }
        self.alternate();
        moves
    }
}
