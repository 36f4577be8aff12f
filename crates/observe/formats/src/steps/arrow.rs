//! Lists of times as Arrow IPC files.

use super::{Columns, Number, StepFile, StepsError, Unit, assembled};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use idlewave_run::for_each_batch;
use std::path::Path;

/// The first and last bytes of an Arrow IPC file.
const MAGIC: &[u8] = b"ARROW1";

/// Whether a file that begins with these bytes is an Arrow IPC file.
pub fn is_arrow(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a list; `unit` is that of times whose column does not name one.
///
/// # Errors
/// The file is damaged, a column is missing or has a type that is no number, or there are fewer than
/// two whole steps.
pub fn read_arrow(path: &Path, unit: Option<Unit>) -> Result<StepFile, StepsError> {
    let mut cells = Vec::new();
    for_each_batch(path, |batch| {
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let columns = Columns::of(names, unit)?.ok_or("column `rank` is missing")?;
        for row in 0..batch.num_rows() {
            let cell = columns.cell(|place| number(batch, place, row));
            cells.push(cell.map_err(|reason| format!("row {}: {reason}", cells.len() + 1))?);
        }
        Ok(())
    })?;
    assembled(cells)
}

/// A number of any width; `None` where there is none.
fn number(batch: &RecordBatch, column: usize, row: usize) -> Option<Number> {
    let array = batch.column(column);
    if array.is_null(row) {
        return None;
    }
    let whole = |value: i64| u64::try_from(value).ok().map(Number::Whole);
    let counted = |value: u64| Some(Number::Whole(value));
    match array.data_type() {
        DataType::Int8 => whole(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => whole(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => whole(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => whole(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => counted(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => counted(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => counted(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => counted(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Some(Number::Real(
            array.as_primitive::<Float32Type>().value(row).into(),
        )),
        DataType::Float64 => Some(Number::Real(array.as_primitive::<Float64Type>().value(row))),
        _ => None,
    }
}
