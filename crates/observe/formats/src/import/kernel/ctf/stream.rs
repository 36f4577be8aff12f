//! The packets and events of a stream in order.

use super::code::{Code, Halt, State, View};
use super::layout::{EventLayout, Layout, StreamLayout};
use super::meaning::Fields;
use super::window::Window;
use crate::import::error::ImportError;
use std::collections::VecDeque;
use std::path::PathBuf;

/// Magic number of each packet.
const MAGIC: u64 = 0xC1FC_1FC1;

/// Room, in bits, for any event that is used: while a packet has more left than this, no event was
/// lost for lack of room. The longest event, a switch, has some 75 bytes without contexts.
const LEAST_ROOM: u64 = 256 * 8;

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// An event, which [`Stream::event`] gives.
    Event,
    /// This many events were lost here, or an unknown number.
    Lost(Option<u64>),
    End,
}

/// Where a packet lost the events that it counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    /// At its end: LTTng closes a packet once there is room for the next one again. Short events
    /// may still get in after the lost ones.
    AtEnd,
    /// Somewhere since the end of the previous packet.
    Somewhere,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
struct Packet<'l> {
    class: &'l StreamLayout,
    /// Where it begins in the file.
    at: u64,
    /// Its bits with events, as far as the file has them.
    content: u64,
    /// Whether the file ends before the packet does.
    cut: bool,
    cpu: Option<u32>,
    /// Events lost up to its end, and the bit after which something may be missing before each
    /// event.
    lost: Option<(Option<u64>, u64)>,
}

/// A stream of one class, in one file or several.
pub(crate) struct Stream<'l> {
    layout: &'l Layout,
    uuid: Option<[u8; 16]>,
    losses: Losses,
    window: Window,
    /// Files that continue this one.
    rest: VecDeque<PathBuf>,
    /// Where the next packet begins in the file.
    next: u64,
    packet: Option<Packet<'l>>,
    state: State,
    event: Option<&'l EventLayout>,
    cpu: Option<u32>,
    /// Where the bytes of the event begin in the file.
    event_at: u64,
    /// Events lost so far, and the number of the last packet.
    discarded: Option<u64>,
    sequence: Option<u64>,
    /// Whether the caller knows that something may be missing before the next event.
    doubted: bool,
    /// Bits of the longest event so far.
    longest: u64,
    /// Events lost before the first event of the packet.
    before: Option<Option<u64>>,
    /// Bytes of the files that are done.
    done: u64,
    /// Files that end within a packet.
    pub(crate) cut: u64,
}

/// What a file says about its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) cpu: Option<u32>,
    pub(crate) class: u64,
    pub(crate) instance: Option<u64>,
    /// Number and start of its first packet.
    pub(crate) sequence: Option<u64>,
    pub(crate) begin: Option<u64>,
}

impl<'l> Stream<'l> {
    pub(crate) fn open(
        layout: &'l Layout,
        uuid: Option<[u8; 16]>,
        losses: Losses,
        mut files: VecDeque<PathBuf>,
    ) -> Result<Option<Self>, ImportError> {
        let Some(first) = files.pop_front() else {
            return Ok(None);
        };
        Ok(Some(Self {
            layout,
            uuid,
            losses,
            window: Window::open(&first)?,
            rest: files,
            next: 0,
            packet: None,
            state: State::with(layout.numbers, layout.texts),
            event: None,
            cpu: None,
            event_at: 0,
            discarded: None,
            sequence: None,
            doubted: false,
            longest: 0,
            before: None,
            done: 0,
            cut: 0,
        }))
    }

    /// What the first packet says; `None` if there is none.
    pub(crate) fn identity(&mut self) -> Result<Option<Identity>, ImportError> {
        let Some(class) = self.head()? else {
            return Ok(None);
        };
        let places = class.places;
        let number = |place| self.state.number(place);
        Ok(Some(Identity {
            cpu: self.state.cpu(places.cpu),
            class: number(self.layout.places.stream).unwrap_or(0),
            instance: number(self.layout.places.instance),
            sequence: number(places.sequence),
            begin: number(places.begin),
        }))
    }

    /// Advances to what comes next.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<Next, ImportError> {
        loop {
            if let Some(lost) = self.before.take() {
                return Ok(Next::Lost(lost));
            }
            let Some(packet) = self.packet else {
                match self.open_packet()? {
                    true => continue,
                    false => return Ok(Next::End),
                }
            };
            if self.state.at < packet.content {
                if packet.lost.is_some_and(|(_, from)| self.state.at > from) && !self.doubted {
                    self.doubted = true;
                    self.cpu = packet.cpu;
                    return Ok(Next::Lost(None));
                }
                self.doubted = false;
                if self.read(&packet)? {
                    return Ok(Next::Event);
                }
            }
            self.packet = None;
            self.cut += u64::from(packet.cut);
            if let Some((lost, _)) = packet.lost {
                self.cpu = packet.cpu;
                return Ok(Next::Lost(lost));
            }
        }
    }

    /// The CPU of the last event, or of what was lost.
    #[inline]
    pub(crate) fn cpu(&self) -> Option<u32> {
        self.cpu
    }

    /// The time of the event, as its clock counts.
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.state.clock
    }

    /// The event.
    #[inline]
    pub(crate) fn event(&self) -> Option<(&'l EventLayout, Fields<'_>)> {
        let fields = Fields {
            state: &self.state,
            bytes: self.window.from(self.event_at),
        };
        Some((self.event?, fields))
    }

    /// Bytes that are done.
    pub(crate) fn done(&self) -> u64 {
        self.done
            .saturating_add(self.next.min(self.window.length()))
    }

    /// Reads the next event; false if the file ends within it.
    fn read(&mut self, packet: &Packet<'l>) -> Result<bool, ImportError> {
        let (class, begin) = (packet.class, self.state.at);
        let read = |code: &Code, state: &mut State, view: View<'_>| {
            state.begin();
            code.run(class.header.clone(), state, view)?;
            let event = class.event(state.event).ok_or(Halt::Undeclared)?;
            code.run(event.steps.clone(), state, view)?;
            match state.at > begin {
                true => Ok(event),
                false => Err(Halt::Empty),
            }
        };
        match self.attempt(packet.at, packet.content, read)? {
            Ok(event) => {
                self.event = Some(event);
                self.longest = self.longest.max(self.state.at - begin);
                if packet.cpu.is_none() {
                    self.cpu = self.state.cpu(class.cpu);
                }
                Ok(true)
            }
            Err(Halt::Short) if packet.cut => Ok(false),
            Err(halt) => {
                let place = packet.at + self.state.at / 8;
                Err(self.window.damaged(place, halt.reason()))
            }
        }
    }

    /// Reads what begins here, and fetches as many bytes as that needs. After a failure, the
    /// position and the clock are as before.
    fn attempt<T>(
        &mut self,
        packet: u64,
        end: u64,
        read: impl Fn(&Code, &mut State, View<'_>) -> Result<T, Halt>,
    ) -> Result<Result<T, Halt>, ImportError> {
        let (at, clock) = (self.state.at, self.state.clock);
        let place = packet + at / 8;
        loop {
            let bytes = self.window.from(place);
            let first = at & !7;
            let view = View {
                bytes,
                first,
                end: end.min(first + bytes.len() as u64 * 8),
            };
            let halt = match read(&self.layout.code, &mut self.state, view) {
                Ok(found) => {
                    self.event_at = place;
                    return Ok(Ok(found));
                }
                Err(halt) => halt,
            };
            let more = halt == Halt::Short && view.end < end;
            (self.state.at, self.state.clock) = (at, clock);
            if !more || !self.window.more(place)? {
                return Ok(Err(halt));
            }
        }
    }

    /// Goes to the next packet in the files; false if there is none.
    fn open_packet(&mut self) -> Result<bool, ImportError> {
        loop {
            if let Some(class) = self.head()? {
                self.enter(class)?;
                return Ok(true);
            }
            let Some(file) = self.rest.pop_front() else {
                return Ok(false);
            };
            self.done = self.done.saturating_add(self.window.length());
            self.window = Window::open(&file)?;
            self.next = 0;
        }
    }

    /// Reads header and context of the next packet; `None` at the end of the file.
    fn head(&mut self) -> Result<Option<&'l StreamLayout>, ImportError> {
        let at = self.next;
        let length = self.window.length();
        if at >= length {
            return Ok(None);
        }
        let end = (length - at).saturating_mul(8);
        self.state.at = 0;
        let layout = self.layout;
        let header = |code: &Code, state: &mut State, view: View<'_>| {
            state.begin();
            code.run(layout.header.clone(), state, view)
        };
        if let Err(halt) = self.attempt(at, end, header)? {
            return self.no_head(halt);
        }
        self.check(at)?;
        let id = self.state.number(layout.places.stream).unwrap_or(0);
        // Without numbers, there is only one class.
        let only = layout.streams.values().next();
        let only = only.filter(|_| layout.places.stream.is_none() && layout.streams.len() == 1);
        let Some(class) = layout.streams.get(&id).or(only) else {
            let reason = format!("a packet is of the stream {id}, which is not declared");
            return Err(self.window.damaged(at, reason));
        };
        let context = |code: &Code, state: &mut State, view: View<'_>| {
            state.begin();
            code.run(class.context.clone(), state, view)
        };
        match self.attempt(at, end, context)? {
            Ok(()) => Ok(Some(class)),
            Err(halt) => self.no_head(halt),
        }
    }

    /// Handles a packet whose head cannot be read.
    fn no_head(&mut self, halt: Halt) -> Result<Option<&'l StreamLayout>, ImportError> {
        match halt {
            // The file ends within the head of its last packet.
            Halt::Short => {
                self.cut += 1;
                self.next = self.window.length();
                Ok(None)
            }
            halt => Err(self.window.damaged(self.next, halt.reason())),
        }
    }

    /// Checks that this is a packet, and one of this trace.
    fn check(&self, at: u64) -> Result<(), ImportError> {
        let places = self.layout.places;
        let magic = self.state.number(places.magic);
        if magic.is_some_and(|magic| magic != MAGIC) {
            return Err(self.window.damaged(at, "no packet begins here"));
        }
        let bytes = self.window.from(self.event_at);
        let uuid = places.uuid.map(|place| self.state.texts[place as usize]);
        let uuid = uuid.and_then(|(begin, length)| bytes.get(begin..begin + length));
        match (uuid, &self.uuid) {
            (Some(found), Some(expected)) if found != expected => {
                Err(self.window.damaged(at, "a packet is of another trace"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the packet whose head was read.
    fn enter(&mut self, class: &'l StreamLayout) -> Result<(), ImportError> {
        if !class.timed {
            return Err(ImportError::Lacks {
                path: self.window.path().to_owned(),
                what: "its events have no times".to_owned(),
                next: "record with a tracer that notes the time of each event".to_owned(),
            });
        }
        let (at, places) = (self.next, class.places);
        let number = |place| self.state.number(place);
        let there = (self.window.length() - at).saturating_mul(8);
        let (size, content) = (number(places.size), number(places.content));
        let size = size.or(content).unwrap_or(there);
        let content = content.unwrap_or(size);
        if size % 8 != 0 || content > size || self.state.at > content {
            let reason = "a packet is not as long as it says";
            return Err(self.window.damaged(at, reason));
        }
        if size == 0 {
            return Err(self.window.damaged(at, "a packet has no bits"));
        }
        let begin = number(places.begin);
        let (discarded, sequence) = (number(places.discarded), number(places.sequence));
        let lost = self.lost(discarded, sequence);
        self.state.clock = begin.unwrap_or(self.state.clock);
        self.cpu = self.state.cpu(places.cpu);
        self.next = at.saturating_add(size / 8);
        let mut packet = Packet {
            class,
            at,
            content: content.min(there),
            cut: content > there,
            cpu: self.cpu,
            lost: None,
        };
        match (lost, self.losses) {
            (Some(count), Losses::AtEnd) => {
                let room = (2 * self.longest).max(LEAST_ROOM);
                packet.lost = Some((Some(count), size.saturating_sub(room)));
            }
            (Some(count), Losses::Somewhere) => {
                (self.before, packet.lost) = (Some(Some(count)), Some((None, content)));
            }
            (None, _) => {}
        }
        self.packet = Some(packet);
        Ok(())
    }

    /// How many events were lost, by the count in a packet. Also notes whether packets are missing
    /// before it.
    fn lost(&mut self, discarded: Option<u64>, sequence: Option<u64>) -> Option<u64> {
        let before = std::mem::replace(&mut self.sequence, sequence);
        if let (Some(before), Some(now)) = (before, sequence) {
            self.before = (now != before.wrapping_add(1)).then_some(None);
        }
        let known = match (self.discarded, sequence) {
            (Some(known), _) => Some(known),
            // Counts begin with the first packet. A snapshot begins with a later one.
            (None, None | Some(0)) => Some(0),
            (None, Some(_)) => None,
        };
        self.discarded = discarded;
        let lost = discarded?.checked_sub(known?)?;
        (lost > 0).then_some(lost)
    }
}
