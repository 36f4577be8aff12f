//! Lists and matrices of times as text: fields between commas, semicolons, tabs or blanks; `#`
//! starts a comment.

use super::{
    Cell, Columns, MOST_RANKS, Number, StepFile, StepsError, Unit, assembled, duration, no_unit,
};

/// Reads a list or a matrix; `unit` is that of times whose column does not name one.
///
/// # Errors
/// The first line that is wrong, a unit that is missing, or fewer than two whole steps.
pub fn read_csv(bytes: &[u8], unit: Option<Unit>) -> Result<StepFile, StepsError> {
    let mut layout = None;
    let mut cells = Vec::new();
    let mut steps = 0;
    for (number, line) in bytes.split(|&b| b == b'\n').enumerate() {
        let wrong = |reason: String| StepsError::Line {
            line: number + 1,
            reason,
        };
        let text = std::str::from_utf8(line).map_err(|_| wrong("it is not text".to_owned()))?;
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let fields = fields(text);
        let layout = match &layout {
            Some(layout) => layout,
            None => {
                let found = Layout::of(&fields, unit).map_err(wrong)?;
                let layout = layout.insert(found);
                if layout.has_header {
                    continue;
                }
                layout
            }
        };
        if fields.len() != layout.fields {
            let (found, expected) = (fields.len(), layout.fields);
            return Err(wrong(format!(
                "it has {found} fields, the first line {expected}"
            )));
        }
        let at = |place: usize| fields.get(place).and_then(|field| Number::of(field));
        match &layout.columns {
            Some(columns) => cells.push(columns.cell(at).map_err(wrong)?),
            None => {
                let unit = unit.ok_or_else(|| wrong(no_unit("a matrix of times")))?;
                for (rank, place) in (layout.first..layout.fields).enumerate() {
                    cells.push(Cell {
                        step: steps,
                        rank: rank as u32,
                        begin: None,
                        duration: duration(at(place), unit).map_err(wrong)?,
                    });
                }
                steps += 1;
            }
        }
    }
    if layout.is_none() {
        return Err(StepsError::File("it is empty".to_owned()));
    }
    assembled(cells)
}

/// What the first line shows.
struct Layout {
    fields: usize,
    has_header: bool,
    /// Of a list.
    columns: Option<Columns>,
    /// Column of rank 0 in a matrix.
    first: usize,
}

impl Layout {
    fn of(fields: &[&str], unit: Option<Unit>) -> Result<Self, String> {
        let has_header = fields.iter().any(|field| Number::of(field).is_none());
        let columns = match has_header {
            true => Columns::of(fields.iter().copied(), unit)?,
            false => None,
        };
        let is_step = fields
            .first()
            .is_some_and(|name| name.eq_ignore_ascii_case("step"));
        if columns.is_none() && fields.len() - usize::from(is_step) > MOST_RANKS as usize {
            return Err(format!("it has {} fields: too many ranks", fields.len()));
        }
        Ok(Self {
            fields: fields.len(),
            has_header,
            columns,
            first: usize::from(is_step),
        })
    }
}

fn fields(text: &str) -> Vec<&str> {
    match text
        .find([',', ';', '\t'])
        .map(|at| text.as_bytes()[at] as char)
    {
        Some(separator) => text
            .split(separator)
            .map(|f| f.trim().trim_matches('"'))
            .collect(),
        None => text.split_whitespace().collect(),
    }
}
