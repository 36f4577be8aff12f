use super::*;
use proptest::prelude::*;

/// A bundle with files of these contents, one of them in a directory.
fn bundle(contents: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("raw/events/sched")).unwrap();
    for (i, bytes) in contents.iter().enumerate() {
        let name = match i {
            1 => "raw/cpu0".to_owned(),
            2 => "raw/events/sched/format".to_owned(),
            _ => format!("table{i}.arrow"),
        };
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Incompressible bytes.
fn noise(count: usize) -> Vec<u8> {
    let next = |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1_u64), next)
        .map(|x| (x >> 56) as u8)
        .take(count)
        .collect()
}

fn sent(dir: &Path, node: &str) -> Vec<String> {
    let mut bytes = Vec::new();
    send(dir, node, &mut bytes).unwrap();
    String::from_utf8(bytes)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    files(dir)
        .unwrap()
        .into_iter()
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

fn receive(lines: &[String], to: &Path) -> io::Result<Receiver> {
    let mut receiver = Receiver::new(to)?;
    for line in lines {
        if let Some(line) = parse(line)? {
            receiver.take(&line)?;
        }
    }
    Ok(receiver)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_bundle_comes_out_as_it_went_in_whatever_stands_between_and_before_its_lines(
        contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5_000), 0..4),
        prefix in "[a-z0-9\\[\\],<> ]{0,12}",
    ) {
        let dir = bundle(&contents);
        let mut lines = Vec::new();
        for line in sent(dir.path(), "node-1.x") {
            lines.push("a line of the launcher: IWF".to_owned());
            lines.push(format!("{prefix}{line}"));
        }
        let out = tempfile::tempdir().unwrap();
        let receiver = receive(&lines, &out.path().join("x")).unwrap();
        prop_assert!(receiver.is_whole());
        prop_assert_eq!(content(&out.path().join("x")), content(dir.path()));
    }

    #[test]
    fn any_line_that_is_lost_doubled_or_altered_is_noticed(
        at in any::<prop::sample::Index>(),
        byte in any::<prop::sample::Index>(),
        how in 0..4,
    ) {
        let noise = noise(20_000);
        let dir = bundle(&[noise, vec![1; 100]]);
        let mut lines = sent(dir.path(), "n");
        let at = at.index(lines.len());
        match how {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            _ => {
                let mut bytes = lines[at].clone().into_bytes();
                let used = lines[at].trim_end().len();
                let byte = byte.index(used);
                bytes[byte] = match (how, bytes[byte]) {
                    // For a letter, the other case.
                    (2, byte) => byte ^ 0x20,
                    (_, b'A') => b'B',
                    _ => b'A',
                };
                lines[at] = String::from_utf8(bytes).unwrap();
            }
        }
        let out = tempfile::tempdir().unwrap();
        let whole = receive(&lines, &out.path().join("x")).is_ok_and(|r| r.is_whole());
        prop_assert!(!whole);
    }
}

#[test]
fn every_line_but_the_last_has_1024_bytes_so_that_no_launcher_tears_it() {
    let noise = noise(30_000);
    let dir = bundle(&[noise]);
    let lines = sent(dir.path(), "a-node-with-a-long-name.example.org");
    let (last, rest) = lines.split_last().unwrap();
    assert!(
        rest.len() > 10 && rest.iter().all(|l| l.len() == 1_023),
        "{}",
        rest.len()
    );
    assert!(last.len() < 1_023);
}

#[test]
fn a_name_that_leads_out_of_the_directory_is_refused() {
    for name in [
        "../x", "/x", "..", ".hidden", "a/b", "", "a b", "@x", "x@", "..@x", "x@..", "a@b@c/d",
        "a@@b", "a@../b", "a@.b",
    ] {
        let out = tempfile::tempdir().unwrap();
        let mut files = Files {
            directory: out.path().to_owned(),
            state: State::NameLength,
            partial: Vec::new(),
        };
        let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&1_u64.to_le_bytes());
        bytes.push(7);
        assert!(files.take(&bytes).is_err(), "{name}");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn lines_that_are_not_ours_are_none_and_torn_ones_are_errors() {
    for text in ["", "hello", "IWF", "rank 0: IWF2:x"] {
        assert_eq!(parse(text).unwrap(), None, "{text}");
    }
    for text in [
        "IWF1:",
        "IWF1:n:0:00000000:AAAA",
        "IWF1:n:x:0:A",
        "IWF1:../n:0:0:",
        "IWF1:n:0:zz:AA",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    let line = format!("IWF1:n:7:{:08x}:AAAA", checksum("n", 7, "AAAA"));
    let capitals = line.to_uppercase().replace(":N:", ":n:");
    assert!(line != capitals && parse(&line).is_ok());
    assert!(parse(&capitals).is_err(), "{capitals}");
}
