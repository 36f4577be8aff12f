//! Frames of the network between contexts: no panic, whatever a context hears.
//!
//! Input: a byte that tells how, a length of two bytes, and as many bytes of a frame; again and again. Frames with a right
//! checksum, which foreign bytes hardly have, are made of the others.
#![no_main]

use idlewave_fabric::netctx::{Context, Header, Layout};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(layout) = Layout::fit(16 << 10, 2, 64) else {
        return;
    };
    let mut region = vec![0; layout.bytes() / 8];
    let mut context = Context::begin(layout, &mut region, 1, 0);
    let _ = context.resume(1);
    let mut rest = input;
    let mut frame = Vec::new();
    while let Some((&[how, low, high], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(after.len());
        let (bytes, after) = after.split_at(length);
        rest = after;
        frame.clear();
        frame.extend_from_slice(bytes);
        if how & 1 == 0 && frame.len() >= 36 {
            let payload = (frame.len() - 36) as u16;
            frame[0] = 2;
            frame[2..4].copy_from_slice(&payload.to_le_bytes());
            let crc = crc32c::crc32c_append(crc32c::crc32c(&frame[..32]), &frame[36..]);
            frame[32..36].copy_from_slice(&crc.to_le_bytes());
        }
        if let Ok((mut header, payload)) = Header::decode(&frame) {
            if how & 2 == 0 {
                header.link.gang = 1;
                header.link.epoch = context.epoch();
                header.link.source %= 2;
                header.link.destination %= 2;
            }
            let (source, destination) = (header.link.source, header.link.destination);
            if let Some(mut sender) = context.sender(destination) {
                sender.hear(&header);
            }
            if let Some(mut receiver) = context.receiver(source) {
                receiver.hear(&header, payload);
            }
        }
        let peer = u32::from(how >> 2 & 1);
        if let Some(mut sender) = context.sender(peer) {
            sender.push(&[how; 3], how & 8 == 0);
            if how & 16 == 0 {
                sender.time_out();
            }
            let _ = sender.poll();
        }
        if let Some(mut receiver) = context.receiver(peer) {
            let _ = receiver.poll();
            if how & 32 == 0 {
                receiver.release();
            }
        }
        match how >> 6 {
            1 => context.stop(0..2),
            2 => {
                let next = context.epoch().saturating_add(1);
                let _ = context.resume(next);
            }
            _ => {}
        }
    }
});
