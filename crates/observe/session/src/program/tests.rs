//! Gathers tables from synthetic rings in a spill, and checks them against the records.

use super::*;

use idlewave_clock::{Calibration, Counter, Pair};
use idlewave_interpose::functions;
use idlewave_interpose::ring::{self, flags, kind, life};
use idlewave_run::spill::{Block, RecordKind, SpillWriter};
use idlewave_run::tables::{Calls, Communicators, Direction, Marks, Operations, Table, Transfers};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, RunWriter};
use idlewave_units::{Bytes, Cpu, Pid, Rank};

const WORLD: u64 = 77;
const OTHER: u64 = 99;

fn function(name: &str) -> u64 {
    functions().iter().position(|f| f.name == name).unwrap() as u64
}

fn ring(process: u32, thread: u32, rank: Option<u32>) -> ProgramRing {
    ProgramRing {
        viewed: Default::default(),
        process: Pid::new(process),
        thread: Pid::new(thread),
        generation: 1,
        monotonic: false,
        rank: rank.map(Rank::new),
        size: rank.map(|_| 2),
        life: life::INITIALISED | life::FINALISED,
        thread_level: Some(3),
        lost: 0,
        refused: 0,
        cpu: None,
        name: "app".to_owned(),
        library: Some("a library".to_owned()),
    }
}

fn call(begin: u64, end: u64, name: &str, rest: [u64; 5]) -> [u64; 8] {
    let two = u64::from(kind::CALL) | function(name) << 16;
    let [comm, sequence, sent, received, request] = rest;
    [begin, end, two, comm, sequence, sent, received, request]
}

/// `request` and `peer` are given plus 1, as in rings.
fn transfer(
    kind: u8,
    posted: u64,
    comm: u64,
    peer: u64,
    tag: u64,
    bytes: u64,
    request: u64,
) -> [u64; 8] {
    [
        posted,
        0,
        u64::from(kind) | tag << 32,
        comm,
        peer,
        bytes,
        0,
        request,
    ]
}

fn completion(
    begin: u64,
    end: u64,
    flag: u8,
    peer: u64,
    tag: u64,
    bytes: u64,
    request: u64,
) -> [u64; 8] {
    let two = u64::from(kind::COMPLETION) | u64::from(flag) << 8 | tag << 32;
    [begin, end, two, 0, peer, bytes, 0, request]
}

fn members(key: u64, ranks: [u64; 2]) -> [u64; 8] {
    [
        2,
        ranks[0] | ranks[1] << 32,
        u64::from(kind::MEMBERS),
        key,
        0,
        0,
        0,
        0,
    ]
}

fn loss(reason: u32, many: u64) -> [u64; 8] {
    let two = u64::from(kind::LOSS) | u64::from(reason) << 32;
    [0, 0, two, 0, 0, many, 0, 0]
}

struct Spill {
    out: RunWriter,
    writer: SpillWriter,
}

impl Spill {
    fn new(dir: &std::path::Path) -> Self {
        let out = RunWriter::create(&dir.join("run"), empty_manifest()).unwrap();
        let writer = SpillWriter::create(out.path()).unwrap();
        Self { out, writer }
    }

    fn block(&mut self, kind: RecordKind, number: u32, words: &[u64]) {
        let block = Block {
            kind,
            phase: 0,
            cpu: Cpu::new(0),
            rank: Rank::new(number),
            counts: 0,
            ns: 0,
        };
        self.writer.write(&block, words).unwrap();
    }

    fn ring(&mut self, number: u32, ring: &ProgramRing) {
        self.block(RecordKind::RingState, number, &ring.to_words());
    }

    fn records(&mut self, number: u32, records: &[[u64; 8]]) {
        self.block(RecordKind::RingRecord, number, records.as_flattened());
    }

    /// Two counts make one nanosecond, and count 0 is nanosecond 1000.
    fn gather(mut self) -> (Gathered, RunReader) {
        let pair = |counts, ns| Pair {
            counts,
            ns,
            bracket: 0,
        };
        let pairs = vec![pair(0, 1_000), pair(2_000, 2_000)];
        let calibration = Calibration::from_pairs(Counter::Monotonic, pairs);
        let gathered = gather_program(&mut self.out, &calibration).unwrap();
        self.out.close(None).unwrap();
        (gathered, RunReader::open(self.out.path()).unwrap())
    }
}

#[test]
fn records_of_interleaved_rings_become_rows_on_one_clock() {
    let dir = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(dir.path());
    // Rank 1 has a second thread, which completes what the first one started, and whose records
    // come first.
    spill.ring(0, &ring(10, 10, None));
    spill.ring(1, &ring(20, 20, Some(1)));
    spill.ring(2, &ring(20, 21, Some(1)));
    spill.records(
        2,
        &[
            call(240, 260, "MPI_Wait", [0, 0, 0, 0, 5]),
            completion(240, 260, 0, 1, 7, 300, 5),
        ],
    );
    spill.records(
        1,
        &[
            call(0, 20, "MPI_Init", [0; 5]),
            members(WORLD, [1, 2]),
            call(100, 120, "MPI_Irecv", [WORLD, 0, 0, 0, 5]),
            transfer(kind::RECEIVE, 100, WORLD, 0, 0, 400, 5),
            call(130, 140, "MPI_Irecv", [WORLD, 0, 0, 0, 6]),
            transfer(kind::RECEIVE, 130, WORLD, 1, 9, 400, 6),
        ],
    );
    spill.ring(0, &ring(10, 10, Some(0)));
    spill.records(
        0,
        &[
            call(0, 40, "MPI_Init", [0; 5]),
            members(WORLD, [1, 2]),
            members(OTHER, [2, 1]),
            call(200, 220, "MPI_Send", [WORLD, 0, 0, 0, 0]),
            transfer(kind::SEND, 200, WORLD, 2, 7, 300, 0),
            call(300, 400, "MPI_Bcast", [OTHER, 3 | 2 << 32, 8, 0, 0]),
        ],
    );
    let (gathered, run) = spill.gather();
    assert_eq!((gathered.ranks, gathered.finalised), (2, 2));
    assert_eq!((gathered.size, gathered.calls), (Some(2), 7));
    assert_eq!(
        gathered.first_init_ns,
        Some(1_010),
        "the first that returned"
    );
    assert_eq!(gathered.last_ns, 1_200);

    let operations: Operations = run.read().unwrap();
    let calls: Calls = run.read().unwrap();
    let row = calls.rows().last().unwrap();
    assert_eq!(operations.name[row.operation as usize], "MPI_Bcast");
    assert_eq!((row.begin_ns, row.end_ns), (1_150, 1_200));
    assert_eq!(
        (row.comm, row.sequence, row.root),
        (Some(1), Some(3), Some(Rank::new(1)))
    );
    assert_eq!(
        (row.sent, row.received),
        (Some(Bytes::new(8)), Some(Bytes::new(0)))
    );
    let waits: Vec<_> = calls.rows().filter(|c| c.thread == Pid::new(21)).collect();
    assert_eq!((waits[0].rank, waits[0].request), (Rank::new(1), None));

    let transfers: Transfers = run.read().unwrap();
    let rows: Vec<_> = transfers.rows().collect();
    assert_eq!(rows.len(), 3);
    let received = rows
        .iter()
        .find(|r| r.tag == 7 && r.direction == Direction::Receive)
        .unwrap();
    assert_eq!(
        (received.thread, received.peer),
        (Pid::new(20), Some(Rank::new(0)))
    );
    assert_eq!(
        received.bytes,
        Some(Bytes::new(300)),
        "those of the completion"
    );
    assert_eq!((received.posted_ns, received.wait_ns), (1_050, Some(1_120)));
    assert_eq!(received.completed_ns, Some(1_130));
    let open = rows.iter().find(|r| r.tag == 9).unwrap();
    assert_eq!(
        (open.bytes, open.wait_ns, open.completed_ns),
        (None, None, None)
    );
    let sent = rows
        .iter()
        .find(|r| r.direction == Direction::Send)
        .unwrap();
    assert_eq!((sent.posted_ns, sent.completed_ns), (1_100, Some(1_110)));
    assert_eq!(
        (sent.wait_ns, sent.bytes),
        (Some(1_100), Some(Bytes::new(300)))
    );

    let communicators: Communicators = run.read().unwrap();
    let rows: Vec<_> = communicators
        .rows()
        .map(|c| (c.comm, c.member, c.rank.get(), c.key))
        .collect();
    assert_eq!(
        rows,
        [
            (0, 0, 0, WORLD),
            (0, 1, 1, WORLD),
            (1, 0, 1, OTHER),
            (1, 1, 0, OTHER)
        ]
    );
    let ranks = &run.manifest().ranks;
    assert_eq!(ranks[1].threads, [Pid::new(20), Pid::new(21)]);
    assert_eq!(ranks[1].process, Some(Pid::new(20)));
    assert!(
        run.manifest().losses.is_empty(),
        "{:?}",
        run.manifest().losses
    );
}

#[test]
fn calls_of_all_collectives_keep_communicator_and_bytes_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(dir.path());
    let names = [
        "MPI_Allreduce",
        "MPI_Bcast",
        "MPI_Reduce",
        "MPI_Scan",
        "MPI_Neighbor_alltoall",
        "MPI_Ineighbor_alltoallv",
        "MPI_Wait",
    ];
    spill.ring(0, &ring(10, 10, Some(0)));
    let mut records = vec![call(0, 20, "MPI_Init", [0; 5]), members(WORLD, [1, 2])];
    records.extend(
        (0..)
            .zip(names)
            .map(|(i, name)| call(100 + 20 * i, 110 + 20 * i, name, [WORLD, i + 1, 24, 16, 0])),
    );
    spill.records(0, &records);
    let (_, run) = spill.gather();
    let rows: Vec<_> = run.read::<Calls>().unwrap().rows().skip(1).collect();
    let seen = rows.iter().map(|c| (c.sent, c.received));
    let kept = (Some(Bytes::new(24)), Some(Bytes::new(16)));
    let mut expected = vec![kept; names.len()];
    expected[names.len() - 1] = (None, None);
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert!(
        rows[..6]
            .iter()
            .all(|c| c.comm == Some(0) && c.sequence.is_some())
    );
}

#[test]
fn what_is_missing_is_in_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(dir.path());
    let mut crashed = ring(10, 10, Some(0));
    (crashed.life, crashed.lost) = (life::INITIALISED | life::ABORTED, 17);
    crashed.refused = 2;
    spill.ring(0, &crashed);
    // The ring of a thread that ended before the second one could not be created.
    let earlier = ProgramRing {
        refused: 1,
        lost: 0,
        thread: Pid::new(11),
        ..crashed.clone()
    };
    spill.ring(3, &earlier);
    let mut other = ring(30, 30, Some(0));
    other.life |= life::ABORTED;
    spill.ring(1, &other);
    spill.ring(2, &ring(40, 40, None));
    spill.records(
        0,
        &[
            call(0, 20, "MPI_Init", [0; 5]),
            members(WORLD, [1, 2]),
            call(100, 120, "MPI_Irecv", [WORLD, 0, 0, 0, 5]),
            transfer(kind::RECEIVE, 100, WORLD, 0, 0, 400, 5),
            call(130, 140, "MPI_Wait", [0, 0, 0, 0, 5]),
            completion(130, 140, flags::CANCELLED, 0, 0, 0, 5),
            call(150, 160, "MPI_Isend", [WORLD, 0, 0, 0, 6]),
            transfer(kind::SEND, 150, WORLD, 2, 3, 40, 6),
            completion(170, 180, flags::FREED, 2, 3, 40, 6),
            completion(130, 140, 0, 1, 0, 0, 50),
            [0, 0, 255, 0, 0, 0, 0, 0],
            loss(ring::loss::UNKNOWN_REQUEST, u64::MAX),
            loss(ring::loss::UNKNOWN_REQUEST, 1),
        ],
    );
    // Another program of the same command, and a thread that never became a rank.
    spill.records(1, &[call(500, 520, "MPI_Init", [0; 5])]);
    spill.records(2, &[call(500, 520, "MPI_Init", [0; 5])]);
    let (gathered, run) = spill.gather();
    assert_eq!(
        (gathered.ranks, gathered.finalised, gathered.lost),
        (1, 0, 17)
    );
    assert_eq!(run.read::<Calls>().unwrap().len(), 4);
    let transfers: Transfers = run.read().unwrap();
    let kept: Vec<_> = transfers
        .rows()
        .map(|t| (t.tag, t.bytes, t.completed_ns))
        .collect();
    assert_eq!(kept, [(3, Some(Bytes::new(40)), None)], "sent and given up");
    let losses = run.manifest().losses.entries();
    let counts: Vec<(&str, u64)> = losses.iter().map(|l| (l.what.as_str(), l.count)).collect();
    assert_eq!(
        counts,
        [
            ("records of rank 0 dropped because its ring was full", 17),
            ("threads of rank 0 that could not create a ring", 2),
            ("processes of further MPI programs of the same command", 1),
            ("ranks that did not complete MPI_Finalize", 1),
            ("ranks that called MPI_Abort", 1),
            ("starts of unknown persistent requests", u64::MAX),
            ("completions of requests whose start was not recorded", 1),
            ("operations that were cancelled", 1),
            (
                "sends and receives whose request was freed before they were complete",
                1
            ),
            ("records of processes that never became ranks", 1),
            ("records that could not be decoded", 1),
        ]
    );
    let mut manifest = run.manifest().clone();
    complete_ranks(&mut manifest, 3);
    let processes: Vec<_> = manifest
        .ranks
        .iter()
        .map(|r| (r.rank.get(), r.process))
        .collect();
    assert_eq!(processes, [(0, Some(Pid::new(10))), (1, None), (2, None)]);
    let missing = manifest.losses.entries().last().unwrap();
    assert_eq!(
        (missing.what.as_str(), missing.count),
        ("ranks that were not recorded: 1, 2", 2)
    );
}

#[test]
fn marks_of_threads_without_a_rank_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(dir.path());
    spill.ring(0, &ring(10, 10, None));
    let mark = |what: u8, time| [time, 0, u64::from(what) | 1 << 32, 0, 0, 0, 0, 0];
    let name = u64::from_le_bytes(*b"solve\0\0\0");
    spill.records(
        0,
        &[
            mark(kind::MARK_NAME, name),
            mark(kind::MARK_BEGIN, 10),
            mark(kind::MARK_END, 20),
            mark(kind::MARK_BEGIN, 30),
        ],
    );
    let (_, run) = spill.gather();
    let marks: Marks = run.read().unwrap();
    let rows: Vec<_> = marks
        .rows()
        .map(|m| (m.rank, m.name, m.begin_ns, m.end_ns))
        .collect();
    let solve = || "solve".to_owned();
    assert_eq!(
        rows,
        [
            (None, solve(), 1_005, Some(1_010)),
            (None, solve(), 1_015, None)
        ]
    );
}
