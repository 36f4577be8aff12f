//! Sections and options of the file, in the byte order of the recorded machine.

use std::collections::BTreeMap;

/// The description of an event, as the kernel gives it.
pub(super) struct Format(pub(super) Vec<u8>);

/// Writes numbers, options and sections in the byte order of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) little_endian: bool,
}

impl Numbers {
    fn u16(self, number: u16) -> [u8; 2] {
        match self.little_endian {
            true => number.to_le_bytes(),
            false => number.to_be_bytes(),
        }
    }

    pub(super) fn u32(self, number: u32) -> [u8; 4] {
        match self.little_endian {
            true => number.to_le_bytes(),
            false => number.to_be_bytes(),
        }
    }

    pub(super) fn u64(self, number: u64) -> [u8; 8] {
        match self.little_endian {
            true => number.to_le_bytes(),
            false => number.to_be_bytes(),
        }
    }

    /// The header of a section. The manual page gives the size 4 bytes; trace-cmd writes and reads
    /// 8.
    pub(super) fn section_head(self, id: u16, length: u64) -> Vec<u8> {
        let mut head = self.u16(id).to_vec();
        // Not compressed, and without a description.
        head.extend(self.u16(0));
        head.extend(self.u32(0));
        head.extend(self.u64(length));
        head
    }

    pub(super) fn section(self, id: u16, content: &[u8]) -> Vec<u8> {
        let mut section = self.section_head(id, content.len() as u64);
        section.extend(content);
        section
    }

    pub(super) fn option(self, id: u16, content: &[u8]) -> Vec<u8> {
        let mut option = self.u16(id).to_vec();
        option.extend(self.u32(content.len() as u32));
        option.extend(content);
        option
    }

    /// Content preceded by its length in 8 bytes.
    pub(super) fn sized(self, content: &[u8]) -> Vec<u8> {
        let mut sized = self.u64(content.len() as u64).to_vec();
        sized.extend(content);
        sized
    }

    pub(super) fn header_info(self, page: &[u8], event: &[u8]) -> Vec<u8> {
        let mut info = b"header_page\0".to_vec();
        info.extend(self.sized(page));
        info.extend(b"header_event\0");
        info.extend(self.sized(event));
        info
    }

    pub(super) fn formats(self, formats: &[Format]) -> Vec<u8> {
        let mut out = self.u32(formats.len() as u32).to_vec();
        for Format(text) in formats {
            out.extend(self.sized(text));
        }
        out
    }

    pub(super) fn systems(self, systems: &BTreeMap<String, Vec<Format>>) -> Vec<u8> {
        let mut out = self.u32(systems.len() as u32).to_vec();
        for (name, formats) in systems {
            out.extend(name.as_bytes());
            out.push(0);
            out.extend(self.formats(formats));
        }
        out
    }
}
