//! The steps that read a type.
//!
//! Types are turned into steps once, so that reading an event needs neither names nor allocations.
//! Each number and each text that is needed goes to a place of its own.

use super::bits;
use std::ops::Range;

/// A place for a number.
pub(crate) type Number = u32;
/// A place for a text.
pub(crate) type Chars = u32;

/// Limit on the steps of an event, beyond one for each of its bits: no real event has more.
const MOST_STEPS: u64 = 1 << 10;

/// How many elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Fixed(u64),
    Told(Number),
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Goes to the next multiple of this many bits.
    Align(u64),
    /// An integer.
    Int {
        size: u32,
        align: u64,
        signed: bool,
        big: bool,
        to: Option<Number>,
    },
    /// Bits that are not needed.
    Bits { size: u64, align: u64 },
    /// Bytes up to a zero.
    Text { to: Option<Chars> },
    /// Numbers of one size, which is a multiple of their alignment; a text if they are bytes.
    Row {
        count: Count,
        size: u32,
        align: u64,
        to: Option<Chars>,
    },
    /// Repeats the next `steps` steps.
    Repeat { count: Count, steps: u32 },
    /// Runs one option of a table. All its options together are the next `steps` steps.
    Choose { table: u32, steps: u32 },
    /// The number is a clock stamp of `size` bits.
    Clock { from: Number, size: u32 },
    /// The number says which event it is.
    Event { from: Number },
    /// Passes these bits in place of `steps` steps, of which this is the first.
    Skip { bits: u64, steps: u32 },
}

/// What a tag chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) tag: Number,
    pub(crate) signed: bool,
    /// First and last value of the tag, and the steps, in order. Ranges do not overlap.
    pub(crate) cases: Vec<(i128, i128, Range<u32>)>,
}

/// Why an event cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It runs past the bytes that are there.
    Short,
    /// It has more empty fields than a real one.
    Endless,
    /// Its tag matches no option.
    NoOption,
    /// Its number is not declared.
    Undeclared,
    /// It has no bits, so a packet could hold any number of such events.
    Empty,
}

impl Halt {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Short => "an event runs past the end of its packet",
            Self::Endless => "an event has more empty fields than a real one",
            Self::NoOption => "the tag of a variant chooses none of its options",
            Self::Undeclared => "an event is of a kind that the metadata does not declare",
            Self::Empty => "an event has no bits",
        }
    }
}

/// A part of a packet.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bit of the packet at which the bytes begin, a multiple of 8.
    pub(crate) first: u64,
    /// Bit of the packet after the last that may be read.
    pub(crate) end: u64,
}

/// What was read so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The next bit of the packet.
    pub(crate) at: u64,
    pub(crate) numbers: Vec<u64>,
    /// Byte of the view and length of each text.
    pub(crate) texts: Vec<(usize, usize)>,
    /// The clock.
    pub(crate) clock: u64,
    /// Which event it is.
    pub(crate) event: u64,
    /// Steps that may be taken before more bits must be passed.
    left: u64,
}

impl State {
    /// A state with places for this many numbers and texts.
    pub(crate) fn with(numbers: u32, texts: u32) -> Self {
        Self {
            numbers: vec![0; numbers as usize],
            texts: vec![(0, 0); texts as usize],
            ..Self::default()
        }
    }

    /// The number at a place, if there is one.
    #[inline]
    pub(crate) fn number(&self, place: Option<Number>) -> Option<u64> {
        place.map(|place| self.numbers[place as usize])
    }

    /// The number of a CPU, if there is one.
    #[inline]
    pub(crate) fn cpu(&self, place: Option<Number>) -> Option<u32> {
        // A value that is too large becomes one that no CPU has.
        self.number(place)
            .map(|cpu| u32::try_from(cpu).unwrap_or(u32::MAX))
    }

    /// Begins an event or a head.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.event = 0;
        self.left = MOST_STEPS;
    }

    #[inline]
    fn align(&mut self, align: u64) {
        // A file has at most 2^60 bytes, so this cannot overflow.
        self.at = (self.at + align - 1) & !(align - 1);
    }

    #[inline]
    fn pass(&mut self, bits: u64, end: u64) -> Result<u64, Halt> {
        let at = self.at;
        match at.checked_add(bits) {
            Some(next) if next <= end => {
                self.at = next;
                self.left += bits;
                Ok(at)
            }
            _ => Err(Halt::Short),
        }
    }

    /// Takes a step, if one is left.
    #[inline]
    fn step(&mut self) -> Result<(), Halt> {
        self.left = self.left.checked_sub(1).ok_or(Halt::Endless)?;
        Ok(())
    }

    #[inline]
    fn count(&self, count: Count) -> u64 {
        match count {
            Count::Fixed(count) => count,
            Count::Told(number) => self.numbers[number as usize],
        }
    }
}

/// Steps of all types of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) steps: Vec<Step>,
    pub(crate) tables: Vec<Table>,
}

impl Code {
    /// Runs these steps.
    pub(crate) fn run(
        &self,
        steps: Range<u32>,
        state: &mut State,
        view: View<'_>,
    ) -> Result<(), Halt> {
        let mut next = steps.start;
        while next < steps.end {
            let step = &self.steps[next as usize];
            next += 1;
            state.step()?;
            match *step {
                Step::Skip { bits, steps } => {
                    state.pass(bits, view.end)?;
                    next += steps - 1;
                }
                Step::Int { .. } => int(step, state, view)?,
                Step::Align(align) => state.align(align),
                Step::Bits { size, align } => {
                    state.align(align);
                    state.pass(size, view.end)?;
                }
                Step::Text { to } => text(state, view, to)?,
                Step::Row {
                    count,
                    size,
                    align,
                    to,
                } => {
                    state.align(align);
                    let bits = state.count(count).checked_mul(u64::from(size));
                    let at = state.pass(bits.unwrap_or(u64::MAX), view.end)?;
                    if let Some(to) = to {
                        state.texts[to as usize] = place(view, at, state.at);
                    }
                }
                Step::Repeat { count, steps } => {
                    self.repeat(state.count(count), next..next + steps, state, view)?;
                    next += steps;
                }
                Step::Choose { table, steps } => {
                    let chosen = self.chosen(table, state)?;
                    self.run(chosen, state, view)?;
                    next += steps;
                }
                Step::Clock { from, size } => {
                    state.clock = later(state.clock, state.numbers[from as usize], size);
                }
                Step::Event { from } => state.event = state.numbers[from as usize],
            }
        }
        Ok(())
    }

    fn repeat(
        &self,
        count: u64,
        steps: Range<u32>,
        state: &mut State,
        view: View<'_>,
    ) -> Result<(), Halt> {
        for _ in 0..count {
            // Elements may have no steps.
            state.step()?;
            self.run(steps.clone(), state, view)?;
        }
        Ok(())
    }

    fn chosen(&self, table: u32, state: &State) -> Result<Range<u32>, Halt> {
        let table = &self.tables[table as usize];
        let tag = state.numbers[table.tag as usize];
        let tag = match table.signed {
            true => i128::from(tag as i64),
            false => i128::from(tag),
        };
        let after = table.cases.partition_point(|(first, ..)| *first <= tag);
        match table.cases[..after].last() {
            Some((_, last, steps)) if tag <= *last => Ok(steps.clone()),
            _ => Err(Halt::NoOption),
        }
    }
}

#[inline]
fn int(step: &Step, state: &mut State, view: View<'_>) -> Result<(), Halt> {
    let Step::Int {
        size,
        align,
        signed,
        big,
        to,
    } = *step
    else {
        return Ok(());
    };
    state.align(align);
    let at = state.pass(u64::from(size), view.end)?;
    if let Some(to) = to {
        let value = bits::read(view.bytes, at - view.first, size, big);
        state.numbers[to as usize] = match signed {
            true => bits::with_sign(value, size),
            false => value,
        };
    }
    Ok(())
}

/// The bytes between two bits: their offset in the view, and their number.
fn place(view: View<'_>, from: u64, to: u64) -> (usize, usize) {
    let byte = (from - view.first) / 8;
    (byte as usize, ((to - from) / 8) as usize)
}

#[inline]
fn text(state: &mut State, view: View<'_>, to: Option<Chars>) -> Result<(), Halt> {
    state.align(8);
    if state.at > view.end {
        return Err(Halt::Short);
    }
    let begin = ((state.at - view.first) / 8) as usize;
    let end = ((view.end - view.first) / 8) as usize;
    let length = memchr::memchr(0, &view.bytes[begin..end]).ok_or(Halt::Short)?;
    if let Some(to) = to {
        state.texts[to as usize] = (begin, length);
    }
    state.pass((length as u64 + 1) * 8, view.end)?;
    Ok(())
}

/// The first time from `now` on whose low bits equal the stamp.
#[inline]
fn later(now: u64, stamp: u64, size: u32) -> u64 {
    if size == 64 {
        return stamp;
    }
    let range = 1_u64 << size;
    let stamp = (now & !(range - 1)) | (stamp & (range - 1));
    match stamp < now {
        true => stamp.wrapping_add(range),
        false => stamp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_few_bits_is_the_next_time_that_ends_so() {
        assert_eq!(later(0x1234_5678, 0x9a, 8), 0x1234_569a);
        assert_eq!(later(0x1234_56f8, 0x9a, 8), 0x1234_579a);
        assert_eq!(later(0x1234_5678, 0x78, 8), 0x1234_5678);
        assert_eq!(later(7, 3, 64), 3);
    }

    #[test]
    fn elements_without_bits_have_an_end() {
        let code = Code {
            steps: vec![
                Step::Repeat {
                    count: Count::Fixed(u64::MAX),
                    steps: 1,
                },
                Step::Align(1),
            ],
            tables: Vec::new(),
        };
        let mut state = State::default();
        state.begin();
        let view = View {
            bytes: &[],
            first: 0,
            end: 0,
        };
        assert_eq!(code.run(0..2, &mut state, view), Err(Halt::Endless));
    }
}
