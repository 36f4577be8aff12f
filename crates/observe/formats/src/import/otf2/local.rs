//! Local definitions of a location: its own numbers for global definitions, and its clock.

use super::anchor::Anchor;
use super::bytes::Bytes;
use super::clock::Offsets;
use crate::import::error::ImportError;
use idlewave_sys::files;
use std::collections::HashMap;
use std::io;

/// Longer local definitions count as damaged.
const LONGEST: u64 = 64 << 20;

/// Numbers of kinds (OTF2 3.0: OTF2_LocalDefinitions, OTF2_MappingType).
mod code {
    pub(super) const END_OF_FILE: u8 = 2;
    pub(super) const MAPPING: u8 = 5;
    pub(super) const CLOCK_OFFSET: u8 = 6;
    pub(super) const OF_REGIONS: u8 = 3;
    pub(super) const OF_COMMS: u8 = 6;
    /// OTF2_ID_MAP_DENSE: the place is the local number.
    pub(super) const DENSE: u8 = 0;
}

/// From local numbers to global ones; a number without an entry is global already.
#[derive(Debug, Default)]
pub(super) struct Map {
    dense: Vec<u32>,
    sparse: HashMap<u32, u32>,
}

impl Map {
    pub(super) fn global(&self, local: u32) -> u32 {
        let dense = self.dense.get(local as usize);
        let found = dense.or_else(|| self.sparse.get(&local));
        found.copied().unwrap_or(local)
    }

    fn read(fields: &mut Bytes<'_>) -> Option<Self> {
        let (count, mode) = (fields.u64()?, fields.u8()?);
        let mut map = Self::default();
        for _ in 0..count {
            if mode == code::DENSE {
                map.dense.push(fields.u64()? as u32);
            } else {
                let (local, global) = (fields.u64()? as u32, fields.u64()? as u32);
                map.sparse.insert(local, global);
            }
        }
        Some(map)
    }
}

/// What the file of local definitions says.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub regions: Map,
    pub comms: Map,
    pub offsets: Offsets,
}

impl Local {
    /// Reads the file of a location; `None` if there is none.
    pub(super) fn read(anchor: &Anchor, location: u64) -> Result<Option<Self>, ImportError> {
        let path = anchor.of_location(location, "def");
        let file = match files::read(&path, LONGEST) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ImportError::io(&path)(error)),
        };
        let damaged = |left: usize, reason: &str| ImportError::Damaged {
            path: path.clone(),
            offset: (file.len() - left) as u64,
            reason: reason.to_owned(),
        };
        let no_file = "it does not begin as a file of OTF2";
        let mut bytes = Bytes::of_file(&file).ok_or_else(|| damaged(file.len(), no_file))?;
        let mut found = Self::default();
        loop {
            let left = bytes.len();
            let kind = bytes.u8();
            if kind == Some(code::END_OF_FILE) {
                return Ok(Some(found));
            }
            let fields = kind.and_then(|kind| Some((kind, bytes.record()?)));
            let (kind, fields) =
                fields.ok_or_else(|| damaged(left, "the definitions end early"))?;
            let read = found.define(kind, fields);
            read.ok_or_else(|| damaged(left, "a definition does not fit its length"))?;
        }
    }

    fn define(&mut self, kind: u8, mut fields: Bytes<'_>) -> Option<()> {
        match kind {
            code::MAPPING => match fields.u8()? {
                code::OF_REGIONS => self.regions = Map::read(&mut fields)?,
                code::OF_COMMS => self.comms = Map::read(&mut fields)?,
                _ => {}
            },
            code::CLOCK_OFFSET => {
                let (time, offset) = (fields.full_u64()?, fields.i64()?);
                self.offsets.add(time, offset);
            }
            _ => {}
        }
        Some(())
    }
}
