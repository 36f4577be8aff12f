//! CTF: no panic, and nothing is allocated for a length that the files do not have.
//!
//! The first byte says what the rest is: metadata, beside a stream of LTTng's layout, or a stream, beside
//! metadata as LTTng writes it for a little-endian or a big-endian machine.
#![no_main]

use idlewave_formats::import::{Ask, import};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::sync::LazyLock;

/// Longest input.
const LONGEST: usize = 1 << 16;

static METADATA: LazyLock<[String; 2]> = LazyLock::new(|| ["le", "be"].map(metadata));
static STREAM: LazyLock<Vec<u8>> = LazyLock::new(stream);

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first().filter(|_| input.len() < LONGEST) else {
        return;
    };
    let (metadata, stream) = match kind % 3 {
        0 => (rest, STREAM.as_slice()),
        n => (METADATA[usize::from(n) - 1].as_bytes(), rest),
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let trace = dir.path().join("trace");
    fs::create_dir(&trace).expect("a temporary directory can be made");
    for (name, bytes) in [("metadata", metadata), ("stream_0", stream)] {
        fs::write(trace.join(name), bytes).expect("a temporary file can be written");
    }
    let _ = import(&Ask::new(&trace, &dir.path().join("run")));
});

fn metadata(order: &str) -> String {
    let text = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 64; align = 8; } := uint64_t;
typealias integer { size = 5; align = 1; } := uint5_t;
typealias integer { size = 27; align = 1; map = clock.monotonic.value; } := stamp27_t;
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := stamp_t;
trace {
    major = 1; minor = 8; byte_order = ORDER;
    packet.header := struct { uint32_t magic; uint32_t stream_id; };
};
env { domain = "kernel"; tracer_name = "lttng-modules"; };
clock { name = "monotonic"; freq = 1000000000; };
struct event_header_compact {
    enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
    variant <id> {
        struct { stamp27_t timestamp; } compact;
        struct { uint32_t id; stamp_t timestamp; } extended;
    } v;
} align(8);
stream {
    id = 0;
    event.header := struct event_header_compact;
    packet.context := struct {
        stamp_t timestamp_begin; uint64_t content_size; uint64_t packet_size;
        uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
    };
};
event {
    name = "sched_switch"; id = 0; stream_id = 0;
    fields := struct {
        uint8_t _prev_comm[16]; uint32_t _prev_tid; uint64_t _prev_state;
        string _next_comm; uint32_t _next_tid;
    };
};
event {
    name = "sched_process_fork"; id = 1; stream_id = 0;
    fields := struct {
        uint32_t _parent_tid; uint32_t _child_tid; uint8_t __vtids_length;
        struct { uint5_t odd; string s; } _vtids[ __vtids_length ];
    };
};
event {
    name = "irq_handler_entry"; id = 2; stream_id = 0;
    fields := struct { uint32_t _irq; string _name; };
};
"#;
    text.replace("ORDER", order)
}

/// A packet of a little-endian machine with one interrupt.
fn stream() -> Vec<u8> {
    let mut out = [0xC1FC_1FC1_u32, 0].map(u32::to_le_bytes).concat();
    // Begin, bits with events, bits of the packet, number, discarded events; then the CPU.
    for number in [1000, 69 * 8, 69 * 8, 0, 0_u64] {
        out.extend(number.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    out.extend((2 | 2000_u32 << 5).to_le_bytes());
    out.extend(7_u32.to_le_bytes());
    out.extend(b"network0\0");
    out
}
