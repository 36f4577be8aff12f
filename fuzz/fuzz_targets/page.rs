//! Foreign format files, header and sub-buffers: no panic, no row out of order.
//!
//! Input: text of one format file, a zero byte, text of `header_page`, a zero byte, sub-buffers.
#![no_main]

use idlewave_ftrace::event::Decoder;
use idlewave_ftrace::format::{EventFormat, HeaderPage};
use idlewave_ftrace::testing::{CpuTables, decode_pages, formats};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |b| *b == 0);
    let (Some(format), Some(header), Some(bytes)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let mut all = formats();
    if let Ok(format) = EventFormat::parse(Path::new("f"), &String::from_utf8_lossy(format)) {
        all.retain(|f| f.name != format.name);
        all.push(format);
    }
    let (decoder, _) = Decoder::new(&all);
    let header = HeaderPage::parse(Path::new("h"), &String::from_utf8_lossy(header))
        .unwrap_or(HeaderPage::LONG64);
    for page_size in [4096, 512] {
        if header.data < page_size {
            let size = page_size as usize;
            let span = (0, Some(1 << 40));
            check(&decode_pages::<true>(&decoder, &header, size, bytes, span));
            check(&decode_pages::<false>(&decoder, &header, size, bytes, span));
        }
    }
});

fn check(tables: &CpuTables) {
    let bursts = &tables.bursts;
    assert!(
        bursts
            .begin_ns
            .iter()
            .zip(&bursts.end_ns)
            .all(|(b, e)| b <= e)
    );
    assert!(
        bursts
            .end_ns
            .iter()
            .zip(bursts.begin_ns.iter().skip(1))
            .all(|(e, b)| e <= b)
    );
    let interrupts = &tables.interrupts;
    assert!(interrupts.begin_ns.is_sorted());
    assert!(
        interrupts
            .begin_ns
            .iter()
            .zip(&interrupts.end_ns)
            .all(|(b, e)| b <= e)
    );
    assert!(tables.wakeups.time_ns.is_sorted());
}
