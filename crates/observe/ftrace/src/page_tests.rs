use super::*;
use crate::testing::PageWriter;
use proptest::prelude::*;

const HEADER: HeaderPage = HeaderPage::LONG64;

fn parse(bytes: &[u8]) -> Result<Page<'_>, PageError> {
    Page::parse::<true>(bytes, bytes.len(), &HEADER)
}

fn times(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let page = parse(bytes).unwrap();
    let record = |r: Result<Record<'_>, PageError>| r.map(|r| (r.time_ns, r.payload.to_vec()));
    page.records::<true>()
        .map(record)
        .collect::<Result<_, _>>()
        .unwrap()
}

fn raw(commit: u64, words: &[u32]) -> Vec<u8> {
    let mut bytes = 1000_u64.to_le_bytes().to_vec();
    bytes.extend(commit.to_le_bytes());
    words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes.resize(256, 0);
    bytes
}

#[test]
fn a_page_written_by_hand_gives_its_records() {
    // Data of 1 word after 5 ns; long data of 2 words after 7; padding to the end.
    let bytes = raw(28, &[5 << 5 | 1, 0xa, 7 << 5, 12, 0xb, 0xc, 29]);
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    assert_eq!(
        times(&bytes),
        [(1005, words(&[0xa])), (1012, words(&[0xb, 0xc]))]
    );
}

#[test]
fn time_extends_stamps_and_discarded_events_move_the_clock() {
    let mut page = PageWriter::new(512, 1000);
    page.event(1003, &[1; 4]);
    page.extend_time((5 << 27) + 9);
    page.event(1003 + (5 << 27) + 9 + 2, &[2; 4]);
    page.stamp(1 << 40);
    page.event((1 << 40) + 1, &[3; 4]);
    page.discarded(6, 20);
    page.event((1 << 40) + 8, &[4; 200]);
    page.end_padding();
    let found = times(&page.finish());
    let found: Vec<_> = found.iter().map(|(t, p)| (*t, p[0], p.len())).collect();
    assert_eq!(
        found,
        [
            (1003, 1, 4),
            (1014 + (5 << 27), 2, 4),
            ((1 << 40) + 1, 3, 4),
            ((1 << 40) + 8, 4, 200),
        ]
    );
}

#[test]
fn an_absolute_stamp_takes_its_high_bits_from_the_time_before_it() {
    assert_eq!(absolute(5, 9), 9);
    assert_eq!(absolute((3 << 59) + 5, 9), (3 << 59) + 9);
    // The 59 bits wrapped in between.
    assert_eq!(absolute((3 << 59) + 9, 5), (4 << 59) + 5);
}

#[test]
fn missed_events_are_counted_where_the_kernel_found_room_for_the_count() {
    let missed = |bytes: &[u8]| parse(bytes).unwrap().missed;
    assert_eq!(missed(&PageWriter::new(64, 0).finish()), Missed::No);
    assert_eq!(
        missed(&PageWriter::new(64, 0).missed(None).finish()),
        Missed::Some
    );
    let mut page = PageWriter::new(64, 0);
    page.event(3, &[0; 8]);
    let bytes = page.missed(Some(1 << 33)).finish();
    assert_eq!(missed(&bytes), Missed::Count(1 << 33));
    assert_eq!(times(&bytes).len(), 1);
}

#[test]
fn other_byte_orders_and_longs_are_read() {
    let header = HeaderPage {
        timestamp: 0,
        commit: 8,
        commit_size: 4,
        data: 12,
    };
    let mut bytes = 1000_u64.to_be_bytes().to_vec();
    bytes.extend((8_u32 | 1 << 31 | 1 << 30).to_be_bytes());
    bytes.extend((1_u32 << 27 | 5).to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    bytes.extend(77_u32.to_be_bytes());
    let page = Page::parse::<false>(&bytes, bytes.len(), &header).unwrap();
    assert_eq!(page.missed, Missed::Count(77));
    let records: Vec<_> = page.records::<false>().map(Result::unwrap).collect();
    assert_eq!(
        (records[0].time_ns, records[0].payload),
        (1005, &[1, 2, 3, 4][..])
    );
    assert_eq!((records.len(), records[0].offset), (1, 12));
}

#[test]
fn damage_is_named_with_its_offset_and_ends_the_page() {
    let damage = |commit, words: &[u32]| {
        let bytes = raw(commit, words);
        let page = parse(&bytes).unwrap();
        let mut records = page.records::<true>();
        let error = records.find_map(Result::err).unwrap();
        assert!(records.next().is_none());
        error
    };
    let over = |offset| PageError::Overrun { offset };
    assert_eq!(damage(12, &[1, 0, 28]), over(24));
    assert_eq!(damage(10, &[1, 0, 1]), over(24));
    assert_eq!(damage(8, &[0, u32::MAX]), over(16));
    assert_eq!(damage(4, &[30]), over(16));
    let length = PageError::Length {
        offset: 16,
        length: 3,
    };
    assert_eq!(damage(8, &[0, 3]), length);
    assert_eq!(damage(8, &[1 << 5 | 29, 3]), length);
    assert_eq!(
        parse(&raw(241, &[])).unwrap_err(),
        PageError::TooLong {
            says: 241,
            room: 240
        }
    );
    assert!(matches!(
        parse(&[0; 15]),
        Err(PageError::NoHeader { have: 15, .. })
    ));
}

#[test]
fn a_page_cut_short_gives_its_whole_records() {
    let mut page = PageWriter::new(256, 10);
    page.event(11, &[1; 8]);
    page.event(12, &[2; 8]);
    let bytes = page.finish();
    let cut = Page::parse::<true>(&bytes[..34], 256, &HEADER).unwrap();
    assert!(cut.cut);
    let records: Vec<_> = cut.records::<true>().collect();
    assert_eq!(records[0].unwrap().time_ns, 11);
    assert_eq!(records[1], Err(PageError::Overrun { offset: 28 }));
    assert!(!Page::parse::<true>(&bytes[..40], 256, &HEADER).unwrap().cut);
}

proptest! {
    #[test]
    fn what_is_written_is_read_at_any_page_size(
        size in prop_oneof![Just(512_usize), Just(4096), Just(65_536)],
        events in prop::collection::vec((0_u64..1 << 30, 1_usize..300), 0..40),
    ) {
        let mut time = 7;
        let mut page = PageWriter::new(size, time);
        let mut expected = Vec::new();
        for (delta, length) in events {
            let payload = vec![length as u8; length];
            if page.event(time + delta, &payload) {
                time += delta;
                let mut padded = payload;
                padded.resize(length.next_multiple_of(4), 0);
                expected.push((time, padded));
            }
        }
        prop_assert_eq!(times(&page.finish()), expected);
    }

    #[test]
    fn foreign_bytes_never_panic_and_records_stay_in_order(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        commit in 0_u64..400,
    ) {
        if bytes.len() >= 16 {
            bytes[8..16].copy_from_slice(&commit.to_le_bytes());
        }
        if let Ok(page) = parse(&bytes) {
            let mut last = 0;
            for record in page.records::<true>().flatten() {
                prop_assert!(record.offset > last);
                last = record.offset;
            }
            page.records::<false>().for_each(drop);
        }
    }
}
