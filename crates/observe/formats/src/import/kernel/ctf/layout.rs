//! All of a trace as steps: heads of packets, headers of events, and events.

use super::code::{Chars, Code, Number, Step};
use super::compile::{Compiler, HEADER};
use super::meaning::{Finder, Meaning, Mute, kernel_name};
use super::metadata::{Clock, EventClass, Metadata};
use super::syscalls::Numbers;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Places for what the head of a packet says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadPlaces {
    pub(crate) magic: Option<Number>,
    pub(crate) uuid: Option<Chars>,
    pub(crate) stream: Option<Number>,
    pub(crate) instance: Option<Number>,
}

/// Places for what the context of a packet says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContextPlaces {
    pub(crate) begin: Option<Number>,
    /// Bits with events, and all bits.
    pub(crate) content: Option<Number>,
    pub(crate) size: Option<Number>,
    pub(crate) discarded: Option<Number>,
    pub(crate) cpu: Option<Number>,
    pub(crate) sequence: Option<Number>,
}

/// A class of events.
#[derive(Clone, Debug)]
pub(crate) struct EventLayout {
    /// Its context and its fields.
    pub(crate) steps: Range<u32>,
    /// `None` if the timeline has no use for it.
    pub(crate) meaning: Option<Meaning>,
    /// The thread that ran when it was recorded.
    pub(crate) by: Option<Number>,
    /// A process and one of its threads, as the recorder saw them.
    pub(crate) member: Option<(Number, Number)>,
}

/// A class of streams.
#[derive(Clone, Debug)]
pub(crate) struct StreamLayout {
    /// The context of a packet.
    pub(crate) context: Range<u32>,
    pub(crate) places: ContextPlaces,
    /// The header and the context of each event.
    pub(crate) header: Range<u32>,
    /// Whether its events have times.
    pub(crate) timed: bool,
    /// The CPU, from the context of each event.
    pub(crate) cpu: Option<Number>,
    /// By number.
    events: Vec<(u64, EventLayout)>,
}

impl StreamLayout {
    pub(crate) fn event(&self, id: u64) -> Option<&EventLayout> {
        let place = self.events.binary_search_by_key(&id, |(id, _)| *id);
        place.ok().map(|place| &self.events[place].1)
    }
}

/// A trace.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) code: Code,
    /// The header of a packet.
    pub(crate) header: Range<u32>,
    pub(crate) places: HeadPlaces,
    pub(crate) streams: BTreeMap<u64, StreamLayout>,
    /// Places for numbers and for texts.
    pub(crate) numbers: u32,
    pub(crate) texts: u32,
    /// The clock of all stamps, if it is declared.
    pub(crate) clock: Option<Clock>,
    /// Numbers of system calls.
    pub(crate) syscalls: Numbers,
    /// Events that lack a field that the timeline needs, by the kernel's names.
    pub(crate) unusable: BTreeSet<String>,
}

const PACKET_HEADER: &str = "trace.packet.header";
const PACKET_CONTEXT: &str = "stream.packet.context";
const STREAM_CONTEXT: &str = "stream.event.context";
const EVENT_CONTEXT: &str = "event.context";
const EVENT_FIELDS: &str = "event.fields";

impl Layout {
    /// Turns the metadata into steps; the error says what is not supported.
    pub(crate) fn of(metadata: &Metadata) -> Result<Self, String> {
        let mut compiler = Compiler::new(metadata.big);
        let header = compiler.root(PACKET_HEADER, metadata.packet_header.as_ref())?;
        let mut find = Finder::of(&mut compiler, PACKET_HEADER);
        let places = HeadPlaces {
            magic: find.number(&["magic"]),
            uuid: find.text("uuid"),
            stream: find.number(&["stream_id"]),
            instance: find.number(&["stream_instance_id"]),
        };
        let mut all = Self {
            code: Code::default(),
            header,
            places,
            streams: BTreeMap::new(),
            numbers: 0,
            texts: 0,
            clock: None,
            syscalls: Numbers::of(metadata),
            unusable: BTreeSet::new(),
        };
        let nothing = Default::default();
        let declared = metadata.streams.iter().map(|(id, stream)| (*id, stream));
        let implied = metadata.streams.is_empty().then_some((0, &nothing));
        for (id, stream) in declared.chain(implied) {
            compiler.forget(1);
            let context = compiler.root(PACKET_CONTEXT, stream.packet_context.as_ref())?;
            let places = ContextPlaces::of(&mut Finder::of(&mut compiler, PACKET_CONTEXT));
            let begin = compiler.root(HEADER, stream.event_header.as_ref())?.start;
            let end = compiler
                .root(STREAM_CONTEXT, stream.event_context.as_ref())?
                .end;
            let header = &compiler.code.steps[begin as usize..end as usize];
            let layout = StreamLayout {
                context,
                places,
                header: begin..end,
                timed: header.iter().any(|step| matches!(step, Step::Clock { .. })),
                cpu: Finder::of(&mut compiler, STREAM_CONTEXT).number(&["cpu_id"]),
                events: Vec::new(),
            };
            all.streams.insert(id, layout);
            for event in metadata.events.get(&id).into_iter().flatten() {
                let found = all.event(&mut compiler, event)?;
                if let Some(stream) = all.streams.get_mut(&id) {
                    stream.events.push((event.id, found));
                }
            }
        }
        all.clock = clock(metadata, &compiler)?;
        all.finish(compiler);
        Ok(all)
    }

    fn event(
        &mut self,
        compiler: &mut Compiler,
        event: &EventClass,
    ) -> Result<EventLayout, String> {
        // The types of the packet, of the stream and of its events' context stay known.
        compiler.forget(4);
        let within = |reason| format!("event `{}`: {reason}", event.name);
        let begin = compiler.root(EVENT_CONTEXT, event.context.as_ref());
        let begin = begin.map_err(within)?.start;
        let end = compiler.root(EVENT_FIELDS, event.fields.as_ref());
        let end = end.map_err(within)?.end;
        let mut find = Finder::of(compiler, EVENT_FIELDS);
        let name = kernel_name(&event.name);
        let meaning = find.meaning(name, &self.syscalls);
        if let Err(Mute::Lacking) = meaning {
            self.unusable.insert(name.to_owned());
        }
        let meaning = meaning.ok();
        let mut layout = EventLayout {
            steps: begin..end,
            meaning,
            by: None,
            member: None,
        };
        if meaning.is_some() {
            layout.by = find.number(&["common_pid"]);
            layout.member = pair(&mut find, "perf_pid", "perf_tid");
            for root in [EVENT_CONTEXT, STREAM_CONTEXT] {
                let mut find = Finder::of(compiler, root);
                layout.by = layout.by.or_else(|| find.number(&["tid"]));
                layout.member = layout.member.or_else(|| pair(&mut find, "pid", "tid"));
            }
        }
        Ok(layout)
    }

    fn finish(&mut self, mut compiler: Compiler) {
        compiler.condense(self.header.clone());
        for stream in self.streams.values_mut() {
            stream.events.sort_by_key(|(id, _)| *id);
            compiler.condense(stream.context.clone());
            compiler.condense(stream.header.clone());
            for (_, event) in &stream.events {
                compiler.condense(event.steps.clone());
            }
        }
        (self.numbers, self.texts) = (compiler.numbers, compiler.texts);
        self.code = compiler.code;
    }
}

impl ContextPlaces {
    fn of(find: &mut Finder<'_>) -> Self {
        Self {
            begin: find.number(&["timestamp_begin"]),
            content: find.number(&["content_size"]),
            size: find.number(&["packet_size"]),
            discarded: find.number(&["events_discarded"]),
            cpu: find.number(&["cpu_id"]),
            sequence: find.number(&["packet_seq_num"]),
        }
    }
}

fn pair(find: &mut Finder<'_>, process: &str, thread: &str) -> Option<(Number, Number)> {
    Some((find.number(&[process])?, find.number(&[thread])?))
}

/// The clock of all stamps.
fn clock(metadata: &Metadata, compiler: &Compiler) -> Result<Option<Clock>, String> {
    let Some(name) = &compiler.clock else {
        return Ok(metadata.clocks.first().cloned());
    };
    match metadata.clocks.iter().find(|clock| clock.name == **name) {
        Some(clock) => Ok(Some(clock.clone())),
        None => Err(format!("there is no clock `{name}`")),
    }
}
