//! The tree against the tables: every level adds up to them, and its leaves hold them.

use super::packed::unpacked;
use super::scene::{Event, Scene};
use super::*;
use crate::testing::{Synthetic, bare_findings};
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Interrupt, Interrupts, LateStep, LateSteps, Region, RegionKind,
    Regions, Source, Sources, Table, Task, TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunWriter, SourceKind};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use proptest::prelude::*;
use scene::{CLASSES, RowKind};
use std::collections::{BTreeMap, HashMap};
use sums::PARTS;

const BASE: u64 = 1 << 54;

/// Start, length, CPU or rank, thread or source, depth.
type Row = (u64, u64, u32, u32, u8);

fn run_of(
    bursts: &[Row],
    interrupts: &[Row],
    regions: &[Row],
    late: &[Row],
) -> (tempfile::TempDir, RunReader) {
    let dir = tempfile::tempdir().unwrap();
    let mut out = RunWriter::create(&dir.path().join("run"), empty_manifest()).unwrap();
    let node = NodeId::new(0);
    let (mut tasks, mut sources) = (Tasks::default(), Sources::default());
    for (pid, name, kind) in [
        (1, "app", TaskKind::Rank),
        (2, "daemon", TaskKind::User),
        (3, "kworker/0:1", TaskKind::Kernel),
    ] {
        let (pid, name) = (Pid::new(pid), name.to_owned());
        tasks.push(Task {
            node,
            pid,
            process: None,
            name,
            kind,
        });
    }
    for (id, kind, name) in [
        (0, SourceKind::TimerTick, "timer tick"),
        (1, SourceKind::Irq, "eth0"),
    ] {
        let name = name.to_owned();
        sources.push(Source { id, kind, name });
    }
    let (mut b, mut i, mut r, mut l) = (
        Bursts::default(),
        Interrupts::default(),
        Regions::default(),
        LateSteps::default(),
    );
    for &(at, length, cpu, who, _) in bursts {
        b.push(Burst {
            node,
            cpu: Cpu::new(cpu),
            pid: Pid::new(who),
            begin_ns: BASE + at,
            end_ns: BASE + at + length,
            end_reason: EndReason::Sleeping,
            certain: who != 2,
        });
    }
    for &(at, length, cpu, source, depth) in interrupts {
        i.push(Interrupt {
            node,
            cpu: Cpu::new(cpu),
            source: source % 2,
            pid: Pid::new(1),
            begin_ns: BASE + at,
            end_ns: BASE + at + length,
            depth,
            certain: true,
        });
    }
    for &(at, length, rank, kind, _) in regions {
        let kind = RegionKind::from_code(kind as u8 % 3).unwrap();
        r.push(Region {
            rank: Rank::new(rank),
            phase: 0,
            iteration: at / 10,
            kind,
            begin_ns: BASE + at,
            end_ns: BASE + at + length,
            bytes: None,
        });
    }
    for &(at, length, rank, lateness, _) in late {
        l.push(LateStep {
            phase: 0,
            iteration: at,
            rank: Rank::new(rank),
            begin_ns: BASE + at,
            end_ns: BASE + at + length,
            lateness: Nanos::from_nanos(lateness.into()),
        });
    }
    out.write_table(&tasks).unwrap();
    out.write_table(&sources).unwrap();
    out.write_table(&b).unwrap();
    out.write_table(&i).unwrap();
    out.write_table(&r).unwrap();
    out.write_table(&l).unwrap();
    out.close(None).unwrap();
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    (dir, run)
}

/// All events of the tables, in no particular order.
fn events(run: &RunReader, scene: &Scene) -> Vec<Event> {
    let mut all = Vec::new();
    run.for_each::<Bursts>(|b| all.extend(scene.burst(b)))
        .unwrap();
    run.for_each::<Interrupts>(|i| all.extend(scene.interrupt(i)))
        .unwrap();
    run.for_each::<Regions>(|r| all.extend(scene.region(r)))
        .unwrap();
    run.for_each::<LateSteps>(|l| all.extend(scene.late_step(l)))
        .unwrap();
    all
}

/// Numbers of a node.
struct Numbers(std::vec::IntoIter<u8>);

impl Numbers {
    fn unsigned(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.0.next().unwrap();
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    }
    fn signed(&mut self) -> i64 {
        let v = self.unsigned();
        (v >> 1) as i64 ^ -((v & 1) as i64)
    }
    fn total(&mut self) -> Total {
        Total {
            count: self.unsigned(),
            time: self.unsigned(),
            greatest: self.unsigned(),
        }
    }
}

/// A node as a reader sees it.
enum Read {
    Parts(Vec<BTreeMap<u32, Total>>, Vec<Vec<(u64, Total)>>),
    /// Row, lane, tag, start, end and values of every event, and how many were left out.
    Leaf(Vec<(u64, u64, u64, i64, i64, Vec<i64>)>, u64),
}

fn read(text: &str, begin: u64, lines: usize) -> Read {
    let mut n = Numbers(unpacked(text).into_iter());
    if n.unsigned() == 0 {
        let parts = (0..PARTS).map(|_| {
            let mut what = 0;
            (0..n.unsigned())
                .map(|_| {
                    what += n.unsigned() as u32;
                    (what, n.total())
                })
                .collect()
        });
        let parts = parts.collect();
        let bins = (0..lines).map(|_| {
            let mut bin = 0;
            (0..n.unsigned())
                .map(|_| {
                    bin += n.unsigned();
                    (bin, n.total())
                })
                .collect()
        });
        let bins = bins.collect();
        assert_eq!(n.0.len(), 0);
        return Read::Parts(parts, bins);
    }
    let left_out = n.unsigned();
    let mut all = Vec::new();
    for _ in 0..n.unsigned() {
        let (row, lane, mores, count) = (
            n.unsigned(),
            n.unsigned(),
            n.unsigned() as usize,
            n.unsigned() as usize,
        );
        let gaps: Vec<i64> = (0..count).map(|_| n.signed()).collect();
        let lengths: Vec<i64> = (0..count).map(|_| n.unsigned() as i64).collect();
        let tags: Vec<u64> = (0..count).map(|_| n.unsigned()).collect();
        let mut more = vec![Vec::new(); count];
        for _ in 0..mores {
            let mut value = 0;
            for of in &mut more {
                value += n.signed();
                of.push(value);
            }
        }
        let mut last = begin as i64;
        for (i, more) in more.into_iter().enumerate() {
            let from = last + gaps[i];
            last = from + lengths[i];
            all.push((row, lane, tags[i], from, last, more));
        }
    }
    assert_eq!(n.0.len(), 0);
    Read::Leaf(all, left_out)
}

/// The part of an event in a stretch, as the sums by name count it.
fn part(e: &Event, begin: u64, end: u64, scene: &Scene) -> Total {
    let begins = (begin..end).contains(&e.begin);
    let is_late = scene.rows[e.row as usize].kind == RowKind::Late;
    Total {
        count: begins.into(),
        time: match is_late {
            true => {
                if begins {
                    e.weight
                } else {
                    0
                }
            }
            false => e.end.min(end).saturating_sub(e.begin.max(begin)),
        },
        greatest: if begins { e.weight } else { 0 },
    }
}

fn sums(events: &[Event], begin: u64, end: u64, scene: &Scene) -> BTreeMap<u32, Total> {
    let mut sums: BTreeMap<u32, Total> = BTreeMap::new();
    for e in events
        .iter()
        .filter(|e| e.begin < end && (e.end > begin || e.begin >= begin))
    {
        let (sum, part) = (sums.entry(e.what).or_default(), part(e, begin, end, scene));
        *sum = Total {
            count: sum.count + part.count,
            time: sum.time + part.time,
            greatest: sum.greatest.max(part.greatest),
        };
    }
    sums
}

/// Checks all nodes of a tree against the events.
struct Check<'a> {
    explorer: &'a Explorer,
    scene: &'a Scene,
    events: &'a [Event],
    next: usize,
    seen: Vec<(u64, u64, u64, i64, i64, Vec<i64>)>,
}

impl Check<'_> {
    fn node(&mut self, level: u32, begin: u64) {
        let number = self.next;
        self.next += 1;
        let bin = self.explorer.unit * PARTS.pow(self.explorer.depth - level);
        let end = begin + bin * self.explorer.bins;
        let inside: HashMap<u32, &String> =
            self.explorer.inside.iter().map(|(n, t)| (*n, t)).collect();
        let text = inside.get(&(number as u32)).copied();
        let node = text.map(|t| read(t, begin, self.scene.rows.len() * CLASSES));
        match (self.explorer.tree.as_bytes()[number], node) {
            (b'1', None) => assert!(sums(self.events, begin, end, self.scene).is_empty()),
            (b'1', Some(Read::Leaf(list, left_out))) => {
                assert_eq!(left_out, 0);
                let own = |e: &(u64, u64, u64, i64, i64, Vec<i64>)| e.3 >= begin as i64;
                let overlapping = self
                    .events
                    .iter()
                    .filter(|e| e.begin < end && (e.end > begin || e.begin >= begin));
                assert_eq!(list.len(), overlapping.count());
                self.seen.extend(list.into_iter().filter(own));
            }
            (b'0', Some(Read::Parts(parts, lines))) => {
                let length = bin * self.explorer.bins / PARTS;
                for (part, sums_of) in parts.iter().enumerate() {
                    let from = begin + part as u64 * length;
                    assert_eq!(*sums_of, sums(self.events, from, from + length, self.scene));
                }
                self.lines(&lines, begin, end, bin);
                for part in 0..PARTS {
                    self.node(level + 1, begin + part * length);
                }
            }
            _ => panic!("node {number} is not what the tree says"),
        }
    }

    fn lines(&self, lines: &[Vec<(u64, Total)>], begin: u64, end: u64, bin: u64) {
        for (line, bins) in lines.iter().enumerate() {
            let (row, class) = ((line / CLASSES) as u32, (line % CLASSES) as u8);
            let is_in = |e: &&Event| {
                (e.row == row && e.class == class) || (e.source == Some(row) && class == 0)
            };
            for &(i, found) in bins {
                let (from, to) = (begin + i * bin, (begin + (i + 1) * bin).min(end));
                let mut want = Total::default();
                for e in self.events.iter().filter(is_in) {
                    let begins = (from..to).contains(&e.begin);
                    want.count += u64::from(begins);
                    want.greatest = want.greatest.max(if begins { e.weight } else { 0 });
                    let timed = e.depth == 0 || e.source == Some(row);
                    want.time += if timed {
                        e.end.min(to).saturating_sub(e.begin.max(from))
                    } else {
                        0
                    };
                }
                assert_eq!(found, want, "line {line}, bin {i}");
            }
            // No event is outside the bins that exist.
            let count: u64 = bins.iter().map(|b| b.1.count).sum();
            let all = self
                .events
                .iter()
                .filter(is_in)
                .filter(|e| (begin..end).contains(&e.begin));
            assert_eq!(count, all.count() as u64);
        }
    }
}

fn check(run: &RunReader, findings: &Findings, leaf: u64) {
    let limits = Limits {
        inside: u64::MAX,
        leaf,
    };
    let explorer = explore_within(run, findings, None, None, limits).unwrap();
    let (scene, _) = Scene::survey(run, findings, &[]).unwrap();
    let events = events(run, &scene);
    let Some(explorer) = explorer else {
        assert_eq!(events.len(), 0);
        return;
    };
    assert_eq!(explorer.events, events.len() as u64);
    let totals: BTreeMap<u32, Total> = explorer.totals.iter().copied().collect();
    assert_eq!(totals, sums(&events, 0, u64::MAX, &scene));
    let mut check = Check {
        explorer: &explorer,
        scene: &scene,
        events: &events,
        next: 0,
        seen: Vec::new(),
    };
    check.node(0, 0);
    assert_eq!(check.next, explorer.tree.len());
    let as_read = |e: &Event| {
        let tag = u64::from(e.what) * 8 + u64::from(e.depth.min(3)) * 2 + u64::from(!e.certain);
        let more = e.more[..usize::from(e.mores)]
            .iter()
            .map(|m| *m as i64)
            .collect();
        (
            u64::from(e.row),
            u64::from(e.lane),
            tag,
            e.begin as i64,
            e.end as i64,
            more,
        )
    };
    let mut want: Vec<_> = events.iter().map(as_read).collect();
    want.sort();
    check.seen.sort();
    assert_eq!(check.seen, want);
}

fn rows(most: u32) -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(
        (0_u64..100_000, 0_u64..9_000, 0_u32..2, 1_u32..4, 0_u8..3),
        0..most as usize,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn every_level_adds_up_to_the_tables_and_the_leaves_hold_them(
        bursts in rows(40), interrupts in rows(40), regions in rows(60), late in rows(8), leaf in 1_u64..20,
    ) {
        let (_dir, run) = run_of(&bursts, &interrupts, &regions, &late);
        check(&run, &bare_findings(), leaf);
    }
}

#[test]
fn a_burst_over_the_whole_run_is_in_every_leaf() {
    let regions: Vec<Row> = (0..500).map(|i| (i * 1_000, 900, 0, 0, 0)).collect();
    let (_dir, run) = run_of(&[(0, 500_000, 0, 1, 0)], &[], &regions, &[]);
    check(&run, &bare_findings(), 20);
}

#[test]
fn times_at_the_end_of_the_clock_are_cut_and_nothing_overflows() {
    let far = u64::MAX - BASE - 10;
    let (_dir, run) = run_of(
        &[(0, 5, 0, 1, 0), (far, 9, 0, 2, 0)],
        &[(7, far, 1, 0, 0)],
        &[],
        &[],
    );
    for leaf in [1, 10] {
        let explorer = explore_within(
            &run,
            &bare_findings(),
            None,
            None,
            Limits { inside: 10, leaf },
        );
        assert_eq!(explorer.unwrap().unwrap().span, (1 << 53) - 1);
    }
}

#[test]
fn a_large_run_goes_into_files_and_only_its_root_into_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let what = Synthetic {
        iterations: 3_000,
        ..Synthetic::default()
    };
    let (run, findings) = what.write(&dir.path().join("run")).unwrap();
    let mut names = Vec::new();
    let mut nodes = 0;
    let mut put = |name: &str, bytes: &[u8]| {
        names.push(name.to_owned());
        nodes += bytes
            .split(|b| *b == b'\n')
            .filter(|line| line.starts_with(b"["))
            .count();
        Ok(())
    };
    let limits = Limits {
        inside: 100,
        leaf: 500,
    };
    let explorer = explore_within(&run, &findings, None, Some(&mut put), limits)
        .unwrap()
        .unwrap();
    assert_eq!(
        explorer.inside.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(explorer.packs.iter().flatten().count(), nodes);
    let last = explorer.packs.iter().flatten().max().unwrap();
    assert_eq!(names.len() as u32, last + 1);
    assert!(
        names
            .iter()
            .all(|n| n.starts_with(&explorer.key) && n.ends_with(".js"))
    );
    // Without a place for files, the tree is the same, but the page holds only its root.
    let alone = explore_within(&run, &findings, None, None, limits)
        .unwrap()
        .unwrap();
    assert_eq!(alone.tree, explorer.tree);
    assert_eq!(alone.inside, explorer.inside);
    assert!(explorer.has_files() && !alone.has_files());
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let what = Synthetic {
        iterations: 300,
        ..Synthetic::default()
    };
    let (run, findings) = what.write(&dir.path().join("run")).unwrap();
    let mut put = |_: &str, _: &[u8]| Err(std::io::Error::other("no room"));
    let error = explore_within(
        &run,
        &findings,
        None,
        Some(&mut put),
        Limits {
            inside: 1,
            leaf: 50,
        },
    );
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains("-00000.js") && said.contains("no room"),
        "{said}"
    );
}
