//! Feeds a CPU's timeline, sub-buffer by sub-buffer.

use crate::event::{Decoded, Decoder};
use crate::format::HeaderPage;
use crate::ledger::Account;
use crate::page::{Missed, Page};
use crate::scale::Scale;
use crate::timeline::{Sink, Timeline};

/// How the sub-buffers of a capture are read.
#[derive(Clone, Debug)]
pub(crate) struct PageDecoder {
    /// Size of a sub-buffer in bytes.
    pub(crate) page_size: usize,
    pub(crate) header: HeaderPage,
    pub(crate) decoder: Decoder,
    /// Turns time stamps into nanoseconds; `None` if they are nanoseconds already.
    pub(crate) scale: Option<Scale>,
}

impl PageDecoder {
    /// Takes one sub-buffer, or what there is of it, and returns how many events it held.
    pub(crate) fn page<const LE: bool>(
        &self,
        bytes: &[u8],
        timeline: &mut Timeline,
        account: &mut Account,
        sink: &mut Sink,
    ) -> u64 {
        let page = match Page::parse::<LE>(bytes, self.page_size, &self.header) {
            Ok(page) => page,
            Err(error) => {
                account.damage(bytes.len() < self.page_size, error);
                timeline.lose(sink);
                return 0;
            }
        };
        account.cut |= page.cut;
        match page.missed {
            Missed::No => {}
            Missed::Count(count) => account.counted = account.counted.saturating_add(count),
            Missed::Some => account.uncounted += 1,
        }
        if page.missed != Missed::No {
            timeline.lose(sink);
        }
        let mut events = 0;
        for record in page.records::<LE>() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    account.damage(page.cut, error);
                    timeline.lose(sink);
                    break;
                }
            };
            events += 1;
            let time_ns = match self.scale {
                None => record.time_ns,
                Some(scale) => scale.ns(record.time_ns),
            };
            match self.decoder.decode::<LE>(record.payload) {
                Decoded::Event(by, event) => timeline.event(time_ns, by, event, sink),
                Decoded::Unknown => {
                    if !sink.markers.take::<LE>(time_ns, record.payload) {
                        account.unknown += 1;
                    }
                }
                Decoded::Short => account.short += 1,
            }
        }
        events
    }
}
