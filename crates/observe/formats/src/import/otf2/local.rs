//! Local definitions of a location: its own numbers for global definitions, and its clock.

use super::anchor::Anchor;
use super::bytes::Bytes;
use super::chunks::Chunks;
use super::clock::Offsets;
use crate::import::error::ImportError;
use std::collections::HashMap;

/// Kinds, by number (OTF2 3.0: OTF2_LocalDefinitions, OTF2_MappingType).
mod code {
    pub(super) const MAPPING: u8 = 5;
    pub(super) const CLOCK_OFFSET: u8 = 6;
    pub(super) const OF_REGIONS: u8 = 3;
    pub(super) const OF_COMMS: u8 = 6;
    /// OTF2_ID_MAP_DENSE: the position is the local number.
    pub(super) const DENSE: u8 = 0;
}

/// Maps local numbers to global ones; a number without an entry is already global.
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
        let Some(mut file) = Chunks::open(path, anchor.definition_chunk)? else {
            return Ok(None);
        };
        let mut found = Self::default();
        file.definitions(|kind, fields| found.define(kind, fields))?;
        Ok(Some(found))
    }

    fn define(&mut self, kind: u8, fields: &mut Bytes<'_>) -> Option<()> {
        match kind {
            code::MAPPING => match fields.u8()? {
                code::OF_REGIONS => self.regions = Map::read(fields)?,
                code::OF_COMMS => self.comms = Map::read(fields)?,
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
