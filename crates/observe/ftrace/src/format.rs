//! Parser of the files in which the kernel describes its trace records.
//!
//! Field offsets move between kernel versions and builds, so the parser assumes nothing about a
//! record that its `format` file does not say. Source: Documentation/trace/events.rst, "Event
//! formats", and `kernel/trace/trace_events.c` (`f_show`, `show_header`).

use crate::FtraceError;
use std::path::{Path, PathBuf};

/// Where a field's value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// In the record itself.
    Fixed,
    /// Elsewhere in the record: the field holds `length << 16 | offset from the record's start`.
    DataLoc,
    /// Likewise, with the offset counted from the end of the field.
    RelLoc,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, without brackets.
    pub name: String,
    /// Bytes from the start of the record.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Whether the number is signed.
    pub signed: bool,
    /// Where the value lies.
    pub kind: FieldKind,
}

/// One event's `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the event.
    pub name: String,
    /// What the field `common_type` of its records holds.
    pub id: u16,
    /// The fields in the file's order, the common ones included.
    pub fields: Vec<Field>,
}

impl EventFormat {
    /// Reads the text of a `format` file; `path` is named in errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FtraceError> {
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        let mut lines = 0;
        for (number, line) in text.lines().enumerate() {
            lines = number + 1;
            let bad = |reason: &str| bad_line(path, number + 1, line, reason);
            let trimmed = line.trim();
            if let Some(value) = trimmed.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = trimmed.strip_prefix("ID:") {
                let value = value.trim().parse::<u16>();
                id = Some(value.map_err(|_| bad("the event's number is not within 0 to 65535"))?);
            } else if trimmed.starts_with("field") {
                fields.push(parse_field(trimmed).map_err(|reason| bad(&reason))?);
            } else if trimmed.starts_with("print fmt:") {
                // The rest is for printing and may contain anything.
                break;
            } else if !(trimmed.is_empty() || trimmed == "format:") {
                return Err(bad("this line is not known"));
            }
        }
        let missing = |what: &str| bad_line(path, lines + 1, "", what);
        Ok(Self {
            name: name.ok_or_else(|| missing("the event's name is missing"))?,
            id: id.ok_or_else(|| missing("the event's number is missing"))?,
            fields,
        })
    }

    /// The same for a file that must describe `event`.
    pub(crate) fn parse_named(path: &Path, text: &str, event: &str) -> Result<Self, FtraceError> {
        let format = Self::parse(path, text)?;
        if format.name == event {
            return Ok(format);
        }
        let line = text.lines().position(|l| l.trim().starts_with("name:"));
        let reason = format!("this is not the format of `{event}`");
        Err(bad_line(path, line.unwrap_or(0) + 1, &format.name, &reason))
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// `events/header_page`: the layout of a sub-buffer's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderPage {
    /// Offset of the 8-byte time stamp of the first record.
    pub timestamp: u32,
    /// Offset of the count of bytes, with its flags.
    pub commit: u32,
    /// Size of that count: the kernel's `long`, 4 or 8 bytes.
    pub commit_size: u32,
    /// Offset of the first record.
    pub data: u32,
}

impl HeaderPage {
    /// What every 64-bit kernel so far has used.
    pub const LONG64: HeaderPage = HeaderPage {
        timestamp: 0,
        commit: 8,
        commit_size: 8,
        data: 16,
    };

    /// Reads the text of `header_page`; `path` is named in errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FtraceError> {
        let mut found: [Option<Field>; 3] = [None, None, None];
        let mut lines = 0;
        for (number, line) in text.lines().enumerate() {
            lines = number + 1;
            let trimmed = line.trim();
            if trimmed.is_empty() {
                continue;
            }
            let bad = |reason: &str| bad_line(path, number + 1, line, reason);
            let field = parse_field(trimmed).map_err(|reason| bad(&reason))?;
            let (slot, sizes): (usize, &[u32]) = match field.name.as_str() {
                "timestamp" => (0, &[8]),
                "commit" => (1, &[4, 8]),
                "data" => (2, &[]),
                _ => continue,
            };
            if field.offset > 4096 || !(sizes.is_empty() || sizes.contains(&field.size)) {
                return Err(bad("no sub-buffer has such a header"));
            }
            found[slot] = Some(field);
        }
        let missing = |what: &str| bad_line(path, lines + 1, "", what);
        let [timestamp, commit, data] = found;
        let timestamp = timestamp.ok_or_else(|| missing("the field `timestamp` is missing"))?;
        let commit = commit.ok_or_else(|| missing("the field `commit` is missing"))?;
        let data = data.ok_or_else(|| missing("the field `data` is missing"))?;
        if timestamp.offset + 8 > data.offset || commit.offset + commit.size > data.offset {
            return Err(missing("the header reaches into the data"));
        }
        Ok(Self {
            timestamp: timestamp.offset,
            commit: commit.offset,
            commit_size: commit.size,
            data: data.offset,
        })
    }
}

/// `field:TYPE NAME[LEN];  offset:N;  size:N;  signed:N;` where `signed` is absent on old kernels.
fn parse_field(line: &str) -> Result<Field, String> {
    let mut declaration = None;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in line.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let (key, value) = part
            .split_once(':')
            .ok_or_else(|| format!("`{part}` is not `key:value`"))?;
        let number = || {
            let number = value.trim().parse::<u32>();
            number.map_err(|_| format!("`{value}` is not a number"))
        };
        match key.trim() {
            "field" | "field special" => declaration = Some(value.trim()),
            "offset" => offset = Some(number()?),
            "size" => size = Some(number()?),
            "signed" => signed = number()? != 0,
            other => return Err(format!("the key `{other}` is not known")),
        }
    }
    let declaration = declaration.ok_or("the declaration is missing")?;
    let without_length = declaration
        .split('[')
        .next()
        .unwrap_or(declaration)
        .trim_end();
    // `__data_loc char[] name` has its bracket in the type.
    let name_part = match declaration.rsplit_once(']') {
        Some((_, after)) if !after.trim().is_empty() => after,
        _ => without_length,
    };
    let name = name_part
        .rsplit(|c: char| c.is_whitespace() || c == '*')
        .next()
        .unwrap_or("");
    if name.is_empty() {
        return Err("the field has no name".to_owned());
    }
    let kind = if declaration.starts_with("__data_loc") {
        FieldKind::DataLoc
    } else if declaration.starts_with("__rel_loc") {
        FieldKind::RelLoc
    } else {
        FieldKind::Fixed
    };
    let offset = offset.ok_or("the offset is missing")?;
    let size = size.ok_or("the size is missing")?;
    if offset > MAX_RECORD || (kind != FieldKind::Fixed && size != 4) {
        return Err("no record has such a field".to_owned());
    }
    Ok(Field {
        name: name.to_owned(),
        offset,
        size,
        signed,
        kind,
    })
}

/// No record is longer than a sub-buffer, and no sub-buffer is longer than its 27-bit count allows.
const MAX_RECORD: u32 = 1 << 27;

fn bad_line(path: &Path, line: usize, text: &str, reason: &str) -> FtraceError {
    FtraceError::Format {
        path: PathBuf::from(path),
        line,
        text: text.trim().chars().take(120).collect(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
