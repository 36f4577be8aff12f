//! Every table of a run as a CSV file (RFC 4180, lines end with a line feed).
//!
//! The first line has the column names. Numbers are exact; a cell without a value is empty, an
//! empty text is `""`.

use crate::export::out::{Output, number};
use crate::export::tables::{self, TableFile};
use crate::export::{Export, ExportError, Job, Written};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use std::io::Write;
use std::path::Path;

/// Writes the tables into the directory that the job names.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    tables::write(job, begin)
}

fn begin(directory: &Path, name: &str, schema: &Schema) -> Result<Box<dyn TableFile>, ExportError> {
    let mut out = Output::begin(&directory.join(format!("{name}.csv")))?;
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    out.text.extend_from_slice(names.join(",").as_bytes());
    out.text.push(b'\n');
    Ok(Box::new(Csv(out)))
}

struct Csv(Output);

impl TableFile for Csv {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), ExportError> {
        let out = &mut self.0;
        for row in 0..rows.num_rows() {
            for (at, column) in rows.columns().iter().enumerate() {
                if at > 0 {
                    out.text.push(b',');
                }
                cell(&mut out.text, column.as_ref(), row);
            }
            out.text.push(b'\n');
            out.pass_on()?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, rows: u64) -> Result<Written, ExportError> {
        self.0.finish(Some(rows))
    }
}

/// Appends one cell. A run's tables have only these types.
fn cell(text: &mut Vec<u8>, column: &dyn Array, row: usize) {
    if column.is_null(row) {
        return;
    }
    match column.data_type() {
        DataType::UInt8 => number(text, column.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt32 => number(text, column.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => number(text, column.as_primitive::<UInt64Type>().value(row)),
        DataType::Int32 => number(text, column.as_primitive::<Int32Type>().value(row)),
        DataType::Boolean => {
            let value = column.as_boolean().value(row);
            text.extend_from_slice(if value { b"true" } else { b"false" });
        }
        DataType::Utf8 => quoted(text, column.as_string::<i32>().value(row)),
        // A type added later is at least not lost.
        _ => {
            let _ = write!(text, "{:?}", column.slice(row, 1));
        }
    }
}

/// Appends a text, in quotes where it would otherwise be read as something else.
fn quoted(text: &mut Vec<u8>, value: &str) {
    let plain = |c: char| !matches!(c, ',' | '"' | '\n' | '\r') && c != ' ';
    if !value.is_empty() && value.chars().all(plain) {
        return text.extend_from_slice(value.as_bytes());
    }
    text.push(b'"');
    text.extend_from_slice(value.replace('"', "\"\"").as_bytes());
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn only_texts_that_need_quotes_have_them() {
        for (value, expected) in [
            ("kworker/0:1", "kworker/0:1"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let mut text = Vec::new();
            quoted(&mut text, value);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
