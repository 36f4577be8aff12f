//! A perf.data of a little-endian machine as a big-endian one would have written it.

use idlewave_ftrace::format::EventFormat;
use std::collections::HashMap;
use std::path::Path;

/// Bytes whose numbers are swapped one after another, and the position of the next.
struct Bytes<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Bytes<'_> {
    fn number<const N: usize>(&mut self) -> u64 {
        let bytes = &mut self.bytes[self.at..self.at + N];
        let value = bytes
            .iter()
            .rev()
            .fold(0, |sum, b| sum << 8 | u64::from(*b));
        bytes.reverse();
        self.at += N;
        value
    }

    /// Swaps the bytes of numbers of these sizes.
    fn turn(&mut self, sizes: &[usize]) {
        for &size in sizes {
            self.bytes[self.at..self.at + size].reverse();
            self.at += size;
        }
    }

    /// Swaps the rest, as numbers of 64 bits.
    fn rest(&mut self) {
        while self.at < self.bytes.len() {
            self.turn(&[8]);
        }
    }
}

fn get(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Swaps the numbers of a perf.data. What an importer does not use is left out.
pub fn big_endian(file: &[u8]) -> Vec<u8> {
    let (entry, attrs, attrs_size) = (get(file, 16), get(file, 24) as usize, get(file, 32));
    let (data, data_size) = (get(file, 40) as usize, get(file, 48) as usize);
    let bits: Vec<u32> = (0..64).filter(|n| get(file, 72) >> n & 1 == 1).collect();
    let sections = bits.iter().enumerate().map(|(n, bit)| {
        let at = data + data_size + 16 * n;
        let begin = get(file, at) as usize;
        (
            *bit,
            file[begin..begin + get(file, at + 8) as usize].to_vec(),
        )
    });
    let kept = [1, 3, 4, 5, 6, 7, 8, 10, 29];
    let features: Vec<(u32, Vec<u8>)> = sections.filter(|(bit, _)| kept.contains(bit)).collect();
    let formats = formats(&features[0].1);
    let mut out = Vec::new();
    let mut header = file[..104].to_vec();
    header[72..80].copy_from_slice(
        &features
            .iter()
            .fold(0_u64, |b, f| b | 1 << f.0)
            .to_le_bytes(),
    );
    let records = records(&file[data..data + data_size], &types(file), &formats);
    header[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    Bytes {
        bytes: &mut header,
        at: 0,
    }
    .rest();
    out.extend(header);
    out.extend(&file[104..data]);
    // Event IDs come between the header and the attributes.
    Bytes {
        bytes: &mut out[..attrs],
        at: 104,
    }
    .rest();
    for n in 0..attrs_size / entry {
        let begin = attrs + (n * entry) as usize;
        let flags = begin + 40;
        let mut attr = Bytes {
            bytes: &mut out[begin..begin + entry as usize],
            at: 0,
        };
        attr.turn(&[4, 4, 8, 8, 8, 8, 8, 4, 4, 8, 8, 8, 8, 4, 4]);
        attr.rest();
        // A bit field, which begins with its highest bit on a big-endian machine.
        let bits = u64::from_be_bytes(out[flags..flags + 8].try_into().unwrap());
        out[flags..flags + 8].copy_from_slice(&bits.reverse_bits().to_be_bytes());
    }
    out.extend(records);
    let mut at = out.len() + 16 * features.len();
    for (_, data) in &features {
        out.extend((at as u64).to_be_bytes());
        out.extend((data.len() as u64).to_be_bytes());
        at += data.len();
    }
    features
        .into_iter()
        .for_each(|(bit, data)| out.extend(feature(bit, data)));
    out
}

/// `sample_type` by event ID.
fn types(file: &[u8]) -> HashMap<u64, u64> {
    let (entry, attrs) = (get(file, 16) as usize, get(file, 24) as usize);
    let mut types = HashMap::new();
    for n in 0..get(file, 32) as usize / entry {
        let at = attrs + n * entry;
        let (ids, size) = (
            get(file, at + entry - 16) as usize,
            get(file, at + entry - 8) as usize,
        );
        for id in file[ids..ids + size].chunks(8) {
            types.insert(get(id, 0), get(file, at + 24));
        }
    }
    types
}

/// Calls `visit` with the text of each description of an event, and swaps the sizes on the way.
fn each_format(data: &mut [u8], mut visit: impl FnMut(&str)) {
    let mut b = Bytes {
        bytes: data,
        at: 10,
    };
    let skip_text = |b: &mut Bytes<'_>| {
        b.at += b.bytes[b.at..].iter().position(|c| *c == 0).unwrap() + 1;
    };
    skip_text(&mut b);
    b.bytes[b.at] = 1;
    b.at += 2;
    b.turn(&[4]);
    for _ in 0..2 {
        skip_text(&mut b);
        b.at += b.number::<8>() as usize;
    }
    let mut system = |b: &mut Bytes<'_>| {
        for _ in 0..b.number::<4>() {
            let size = b.number::<8>() as usize;
            visit(std::str::from_utf8(&b.bytes[b.at..b.at + size]).unwrap());
            b.at += size;
        }
    };
    system(&mut b);
    for _ in 0..b.number::<4>() {
        skip_text(&mut b);
        system(&mut b);
    }
    for _ in 0..2 {
        b.at += b.number::<4>() as usize;
    }
    b.turn(&[8]);
}

fn formats(tracing: &[u8]) -> HashMap<u16, EventFormat> {
    let mut formats = HashMap::new();
    each_format(&mut tracing.to_vec(), |text| {
        // Those of the function tracers have a form of their own.
        if let Ok(format) = EventFormat::parse(Path::new(""), text) {
            formats.insert(format.id, format);
        }
    });
    formats
}

fn feature(bit: u32, mut data: Vec<u8>) -> Vec<u8> {
    let mut b = Bytes {
        bytes: &mut data,
        at: 0,
    };
    match bit {
        1 => each_format(&mut data, |_| ()),
        10 => b.rest(),
        29 => b.turn(&[4, 4, 8, 8]),
        // A text, or two CPU counts.
        7 => b.turn(&[4, 4]),
        _ => b.turn(&[4]),
    }
    data
}

fn records(
    mut data: &[u8],
    types: &HashMap<u64, u64>,
    formats: &HashMap<u16, EventFormat>,
) -> Vec<u8> {
    let mut out = Vec::new();
    while !data.is_empty() {
        let kind = u32::from_le_bytes(data[..4].try_into().unwrap());
        let size = usize::from(u16::from_le_bytes(data[6..8].try_into().unwrap()));
        let mut record = data[..size].to_vec();
        data = &data[size..];
        let mut b = Bytes {
            bytes: &mut record,
            at: 0,
        };
        b.turn(&[4, 2, 2]);
        match kind {
            9 => sample(&mut b, types, formats),
            // Process and thread, a name, and the fields that all others have at their end.
            3 => {
                b.turn(&[4, 4]);
                b.at = b.bytes.len() - 32;
                end(&mut b);
            }
            7 => {
                b.turn(&[4, 4, 4, 4, 8]);
                end(&mut b);
            }
            2 => {
                b.turn(&[8, 8]);
                end(&mut b);
            }
            68 | 69 => b.rest(),
            _ => continue,
        }
        out.extend(record);
    }
    out
}

/// Process, thread, time, CPU and ID.
fn end(b: &mut Bytes<'_>) {
    b.turn(&[4, 4, 8, 4, 4, 8]);
}

/// ID, address, process, thread, time, CPU, period, and the payload.
fn sample(b: &mut Bytes<'_>, types: &HashMap<u64, u64>, formats: &HashMap<u16, EventFormat>) {
    let id = b.number::<8>();
    assert_eq!(types[&id], super::USUAL);
    b.turn(&[8, 4, 4, 8, 4, 4, 8, 4]);
    let begin = b.at;
    let event = u16::from_le_bytes(b.bytes[begin..begin + 2].try_into().unwrap());
    for field in &formats[&event].fields {
        b.at = begin + field.offset as usize;
        if matches!(field.size, 2 | 4 | 8) {
            b.turn(&[field.size as usize]);
        }
    }
}
