//! Long random runs of a channel over bytes: messages of any length, frames that are lost,
//! duplicated, reordered, damaged or of other gangs, with drains and abandoned epochs in between.

#![allow(clippy::unwrap_used)]

#[path = "netctx_channel/ends.rs"]
mod ends;

use ends::Ends;
use idlewave_fabric::netctx::channel::{ReceiveState, Receiver, SendState, Sender};
use idlewave_fabric::netctx::{ChannelError, Header, Kind, Link, Phase};
use idlewave_stats::random::SplitMix;
use proptest::prelude::*;

const PAYLOAD: usize = 16;
const LINK: Link = Link {
    gang: 7,
    epoch: 1,
    source: 0,
    destination: 1,
};

struct Channel {
    ends: Ends,
    there: Vec<Vec<u8>>,
    back: Vec<Vec<u8>>,
    partial: Vec<u8>,
    heard: Vec<Vec<u8>>,
    refused: u32,
}

impl Channel {
    fn new(first: u32, window: u32, credits: u32) -> Self {
        Self {
            ends: Ends::new(LINK, first, [window, credits], PAYLOAD),
            there: Vec::new(),
            back: Vec::new(),
            partial: Vec::new(),
            heard: Vec::new(),
            refused: 0,
        }
    }

    fn sender(&mut self) -> Sender<'_> {
        self.ends.sender()
    }

    fn receiver(&mut self) -> Receiver<'_> {
        self.ends.receiver()
    }

    fn send(&mut self) -> bool {
        let mut frame = Vec::new();
        if let Some((header, payload)) = self.sender().poll() {
            header.encode(payload, &mut frame);
            self.there.push(frame);
            return true;
        }
        false
    }

    fn answer(&mut self) -> bool {
        let mut frame = Vec::new();
        let Some(header) = self.receiver().poll() else {
            return false;
        };
        header.encode(&[], &mut frame);
        self.back.push(frame);
        true
    }

    fn arrive_there(&mut self, frame: &[u8]) {
        match Header::decode(frame) {
            Ok((header, payload)) => {
                self.receiver().hear(&header, payload);
            }
            Err(_) => self.refused += 1,
        }
    }

    fn arrive_back(&mut self, frame: &[u8]) {
        match Header::decode(frame) {
            Ok((header, _)) => {
                self.sender().hear(&header);
            }
            Err(_) => self.refused += 1,
        }
    }

    fn take(&mut self) -> bool {
        let mut partial = std::mem::take(&mut self.partial);
        let mut receiver = self.receiver();
        let Some((content, end)) = receiver.front() else {
            self.partial = partial;
            return false;
        };
        partial.extend_from_slice(content);
        receiver.release();
        if end {
            self.heard.push(partial);
        } else {
            self.partial = partial;
        }
        true
    }

    /// Delivers a frame of one direction, with or without one of the network's misdeeds.
    fn deliver(&mut self, random: &mut SplitMix, there: bool, misdeeds: u64) {
        let frames = if there {
            &mut self.there
        } else {
            &mut self.back
        };
        if frames.is_empty() {
            return;
        }
        let wild = random.below(100) < misdeeds;
        let any = random.below(frames.len() as u64) as usize;
        let mut frame = frames[if wild { any } else { 0 }].clone();
        match if wild { random.below(4) } else { 4 } {
            // Duplicated: one copy stays.
            0 => {}
            // Lost.
            1 => {
                frames.remove(any);
                return;
            }
            // Damaged.
            2 => {
                frames.remove(any);
                let bit = random.below(frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            // Out of order.
            3 => {
                frames.remove(any);
            }
            _ => {
                frames.remove(0);
            }
        }
        if there {
            self.arrive_there(&frame);
        } else {
            self.arrive_back(&frame);
        }
    }

    fn resume(&mut self) {
        let epoch = self.ends.send.link().epoch + 1;
        self.sender().resume(epoch).unwrap();
        self.receiver().resume(epoch).unwrap();
    }

    fn is_drained(&mut self) -> bool {
        self.sender().phase() == Phase::Drained && self.receiver().phase() == Phase::Drained
    }
}

fn message(i: usize, length: usize) -> Vec<u8> {
    (0..length).map(|k| (i * 31 + k * 7) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn messages_come_whole_once_and_in_order(
        seed: u64,
        back in 0_u32..60,
        window in 0_u32..4,
        credits in 0_u32..4,
        misdeeds in 0_u64..60,
        lengths in proptest::collection::vec(0_usize..100, 1..40),
    ) {
        // Before, across and well past the wrap-around.
        let mut channel = Channel::new(u32::MAX - back, 1 << window, 1 << credits);
        let mut random = SplitMix::new(seed);
        let (mut next, mut offset) = (0, 0);
        let (mut drains, mut steps) = (0, 0);
        while channel.heard.len() < lengths.len() {
            steps += 1;
            prop_assert!(steps < 2_000_000, "no progress");
            match random.below(1_000) {
                0..=199 if next < lengths.len() => {
                    let data = message(next, lengths[next]);
                    if channel.sender().push_message(&data, &mut offset) {
                        (next, offset) = (next + 1, 0);
                    }
                }
                0..=399 => {
                    channel.send();
                }
                400..=549 => {
                    channel.answer();
                }
                550..=699 => channel.deliver(&mut random, true, misdeeds),
                700..=849 => channel.deliver(&mut random, false, misdeeds),
                850..=939 => {
                    channel.take();
                }
                // Even when there is no need to.
                940..=979 => channel.sender().time_out(),
                980..=991 => channel.sender().stop(),
                // Perhaps abandoned before it was drained.
                992 => channel.resume(),
                _ if channel.is_drained() => {
                    drains += 1;
                    prop_assert_eq!(channel.ends.send.count(), channel.ends.receive.count());
                    prop_assert_eq!(channel.sender().in_flight(), 0);
                    channel.resume();
                }
                _ => {}
            }
            let sent = channel.ends.send.count().wrapping_sub(channel.ends.receive.count());
            prop_assert!(sent <= 1 << credits, "more under way than was granted");
        }
        for (i, heard) in channel.heard.iter().enumerate() {
            prop_assert_eq!(heard, &message(i, lengths[i]));
        }
        prop_assert!(channel.partial.is_empty() && !channel.take());
        prop_assert!(drains > 0 || steps < 5_000);
    }

    #[test]
    fn frames_of_others_change_nothing(
        gang in 0_u32..3, epoch in 0_u64..4, source in 0_u32..2, destination in 0_u32..2,
        sequence in 0_u32..6, limit in 0_u32..9, code in 0_usize..6,
    ) {
        let own = Link { gang: 1, epoch: 2, source: 0, destination: 1 };
        let link = Link { gang, epoch, source, destination };
        prop_assume!(link != own);
        let mut channel = Channel::new(3, 4, 4);
        channel.ends.send = SendState::new(own, 3, 4);
        channel.ends.receive = ReceiveState::new(own, 3, 4);
        for i in 0..3 {
            prop_assert!(channel.sender().push(&[i], true));
        }
        prop_assert!(channel.send() && channel.send());
        let kinds = [Kind::Data, Kind::End, Kind::Ack, Kind::Flush, Kind::FlushAck, Kind::Probe];
        let header = Header { kind: kinds[code], link, sequence, limit };
        let before = (channel.ends.send, channel.ends.receive);
        prop_assert!(!channel.receiver().hear(&header, &[9]));
        prop_assert!(!channel.sender().hear(&header));
        prop_assert_eq!((channel.ends.send, channel.ends.receive), before);
    }
}

#[test]
fn an_epoch_only_rises() {
    let mut channel = Channel::new(0, 1, 1);
    for asked in [0, 1] {
        let refused = Err(ChannelError::Epoch { own: 1, asked });
        assert_eq!(channel.sender().resume(asked), refused);
        assert_eq!(channel.receiver().resume(asked), refused);
    }
    channel.resume();
    assert_eq!(
        (
            channel.ends.send.link().epoch,
            channel.ends.receive.link().epoch
        ),
        (2, 2)
    );
}

#[test]
fn a_stop_cuts_a_message_between_two_frames_and_the_rest_stays() {
    let mut channel = Channel::new(0, 4, 4);
    let data = message(1, 4 * PAYLOAD);
    let mut offset = 0;
    assert!(channel.sender().push_message(&data, &mut offset));
    assert!(channel.send());
    channel.sender().stop();
    // Only the flush is sent; its number is the one after the only frame that was sent.
    assert!(channel.send() && !channel.send());
    let (flush, _) = Header::decode(&channel.there[1]).unwrap();
    assert_eq!((flush.kind, flush.sequence), (Kind::Flush, 1));
    for frame in std::mem::take(&mut channel.there) {
        channel.arrive_there(&frame);
    }
    assert!(channel.answer());
    let frame = channel.back.remove(0);
    channel.arrive_back(&frame);
    assert!(channel.is_drained());
    assert_eq!(
        (channel.sender().waiting(), channel.receiver().waiting()),
        (3, 1)
    );
    channel.resume();
    while channel.send() {}
    for frame in std::mem::take(&mut channel.there) {
        channel.arrive_there(&frame);
    }
    while channel.take() {}
    assert_eq!(channel.heard, [data]);
}

#[test]
fn a_sender_without_credit_waits_and_asks() {
    let mut channel = Channel::new(0, 4, 2);
    for i in 0..4 {
        assert!(channel.sender().push(&[i], true));
    }
    assert!(!channel.sender().push(&[4], true), "the ring is full");
    assert!(
        channel.send() && channel.send() && !channel.send(),
        "two credits"
    );
    for frame in std::mem::take(&mut channel.there) {
        channel.arrive_there(&frame);
    }
    assert!(channel.answer() && !channel.answer(), "one answer to both");
    let frame = channel.back.remove(0);
    channel.arrive_back(&frame);
    assert!(!channel.send(), "nothing was taken yet");
    assert!(channel.sender().wants_timer());
    // The answer that announced the space is lost.
    assert!(channel.take() && channel.answer());
    channel.back.clear();
    channel.sender().time_out();
    assert!(channel.send());
    let (probe, _) = Header::decode(&channel.there[0]).unwrap();
    assert_eq!(probe.kind, Kind::Probe);
    let frame = channel.there.remove(0);
    channel.arrive_there(&frame);
    assert!(channel.answer());
    let frame = channel.back.remove(0);
    channel.arrive_back(&frame);
    assert!(channel.send() && !channel.send(), "one more");
}

#[test]
fn a_frame_beyond_what_was_granted_is_refused() {
    let mut channel = Channel::new(0, 1, 1);
    let header = |sequence| Header {
        kind: Kind::End,
        link: LINK,
        sequence,
        limit: 0,
    };
    assert!(
        !channel.receiver().hear(&header(0), &[0; PAYLOAD + 1]),
        "too long"
    );
    assert!(channel.receiver().hear(&header(0), &[0; PAYLOAD]));
    assert!(
        !channel.receiver().hear(&header(1), &[0]),
        "no slot is free"
    );
    assert_eq!(channel.ends.receive.count(), 1);
    assert!(
        !channel.sender().push(&[0; PAYLOAD + 1], true),
        "longer than a frame"
    );
}

#[test]
fn answers_to_what_was_never_sent_are_refused() {
    let mut channel = Channel::new(5, 2, 2);
    assert!(channel.sender().push(&[1], true) && channel.send());
    for (sequence, taken) in [(4, false), (7, false), (6, true), (5, false)] {
        let kind = Kind::Ack;
        let header = Header {
            kind,
            link: LINK,
            sequence,
            limit: 7,
        };
        assert_eq!(channel.sender().hear(&header), taken, "{sequence}");
    }
}

fn answer(kind: Kind, sequence: u32, limit: u32) -> Header {
    Header {
        kind,
        link: LINK,
        sequence,
        limit,
    }
}

fn flush(sequence: u32) -> Header {
    answer(Kind::Flush, sequence, 0)
}

/// Kinds and numbers of all frames that the sender sends now.
fn said(channel: &mut Channel) -> Vec<(Kind, u32)> {
    let mut said = Vec::new();
    while let Some((header, _)) = channel.sender().poll() {
        said.push((header.kind, header.sequence));
    }
    said
}

#[test]
fn what_is_repeated_begins_with_the_oldest_unanswered_frame() {
    let mut channel = Channel::new(0, 4, 4);
    for i in 0..3 {
        assert!(channel.sender().push(&[i], true));
    }
    let all = [(Kind::End, 0), (Kind::End, 1), (Kind::End, 2)];
    assert_eq!(said(&mut channel), all);
    channel.sender().time_out();
    // The answer arrives after all: what it acknowledges is not retransmitted.
    assert!(channel.sender().hear(&answer(Kind::Ack, 2, 6)));
    assert_eq!(said(&mut channel), all[2..]);
    // In another epoch it is retransmitted without a timer: nobody accepts what is in flight.
    channel.resume();
    assert_eq!(said(&mut channel), all[2..]);
}

#[test]
fn an_overtaken_answer_takes_no_credit_back() {
    let mut channel = Channel::new(0, 4, 1);
    assert!(channel.sender().push(&[0], true) && channel.sender().push(&[1], true));
    assert_eq!(said(&mut channel), [(Kind::End, 0)]);
    assert!(channel.sender().hear(&answer(Kind::Ack, 1, 2)));
    assert!(channel.sender().hear(&answer(Kind::Ack, 1, 1)));
    assert_eq!(said(&mut channel), [(Kind::End, 1)]);
}

#[test]
fn a_channel_is_drained_only_by_an_answer_to_its_flush_at_its_end() {
    let mut channel = Channel::new(0, 4, 4);
    assert!(channel.sender().push(&[0], true) && channel.sender().push(&[1], true));
    assert_eq!(said(&mut channel).len(), 2);
    channel.sender().stop();
    for (kind, sequence) in [(Kind::FlushAck, 1), (Kind::Ack, 2)] {
        assert!(channel.sender().hear(&answer(kind, sequence, 6)));
        assert_eq!(channel.sender().phase(), Phase::Flushing);
    }
    channel.sender().time_out();
    assert!(channel.sender().hear(&answer(Kind::FlushAck, 2, 6)));
    assert_eq!(channel.sender().phase(), Phase::Drained);
    assert_eq!(said(&mut channel), [], "not even the flush again");
    assert!(!channel.sender().wants_timer());
}

#[test]
fn a_flush_that_overtakes_data_is_answered_when_they_have_come() {
    let mut channel = Channel::new(0, 4, 4);
    let data = |sequence| answer(Kind::End, sequence, 0);
    assert!(channel.receiver().hear(&flush(2), &[]));
    for sequence in 0..2 {
        assert_eq!(channel.receiver().phase(), Phase::Flushing);
        let told = Some(answer(Kind::Ack, sequence, 4));
        assert_eq!(channel.receiver().poll(), told);
        assert!(channel.receiver().hear(&data(sequence), &[]));
    }
    assert_eq!(channel.receiver().phase(), Phase::Drained);
    let told = Some(answer(Kind::FlushAck, 2, 4));
    assert_eq!(channel.receiver().poll(), told);
    // Asked again, because the answer was lost.
    assert!(channel.receiver().hear(&flush(2), &[]));
    assert_eq!(channel.receiver().poll(), told);
    // In the next epoch the receiver says unasked where it is.
    channel.resume();
    let told = channel.receiver().poll().unwrap();
    assert_eq!((told.kind, told.sequence, told.limit), (Kind::Ack, 2, 4));
    assert_eq!(channel.receiver().poll(), None);
}

#[test]
fn space_is_told_of_by_halves() {
    let mut channel = Channel::new(0, 4, 4);
    for sequence in 0..4 {
        assert!(
            channel
                .receiver()
                .hear(&answer(Kind::End, sequence, 0), &[])
        );
    }
    assert_eq!(channel.receiver().poll(), Some(answer(Kind::Ack, 4, 4)));
    for limit in [6, 8] {
        channel.receiver().release();
        assert_eq!(channel.receiver().poll(), None, "half of the half");
        channel.receiver().release();
        let told = Some(answer(Kind::Ack, 4, limit));
        assert_eq!(channel.receiver().poll(), told);
    }
    channel.receiver().release();
    assert_eq!(channel.receiver().poll(), None, "none was left");
}
