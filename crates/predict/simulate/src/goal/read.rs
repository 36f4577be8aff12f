//! Reads schedules from files and detects their form.

use super::read_error::ReadError;
use super::schedule::Schedule;
use super::{binary, text};
use std::io::Read;

impl Schedule {
    /// Reads a schedule in either form; the first bytes tell which. A text is read as a stream, the
    /// binary form is held in memory as a whole.
    pub fn read(mut input: impl Read) -> Result<Self, ReadError> {
        let mut head = Vec::with_capacity(binary::MAGIC.len());
        input
            .by_ref()
            .take(binary::MAGIC.len() as u64)
            .read_to_end(&mut head)?;
        if head == binary::MAGIC || head == binary::USED_UP {
            input.read_to_end(&mut head)?;
            return Schedule::from_binary(&head);
        }
        text::read(&mut head.as_slice().chain(input))
    }

    /// Reads a schedule in the binary form.
    pub fn from_binary(bytes: &[u8]) -> Result<Self, ReadError> {
        binary::read(bytes)
    }

    /// Reads a schedule in the text form, as a stream.
    pub fn read_text(mut input: impl Read) -> Result<Self, ReadError> {
        text::read(&mut input)
    }
}

impl std::str::FromStr for Schedule {
    type Err = ReadError;

    /// Reads a schedule in the text form.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Schedule::read_text(text.as_bytes())
    }
}
