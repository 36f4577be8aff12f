//! docs/tracing-permissions.md lists every command that the program tells its user to try.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

/// Files that tell the user commands to run.
const TELLERS: [&str; 3] = [
    "src/capabilities/probe.rs",
    "src/perf/error.rs",
    "src/tracefs/error.rs",
];

#[test]
fn every_command_that_would_allow_more_is_on_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../../docs/tracing-permissions.md")).unwrap();
    let mut found = 0;
    for file in TELLERS {
        let source = fs::read_to_string(root.join(file)).unwrap();
        let strings = source.split('"').skip(1).step_by(2);
        let command = |s: &&str| {
            ["sudo ", "docker ", "ulimit "]
                .iter()
                .any(|c| s.starts_with(c))
        };
        for told in strings.filter(command) {
            assert!(page.contains(&format!("`{told}`")), "{file}: {told}");
            found += 1;
        }
    }
    assert!(
        found >= 8,
        "only {found} commands found: has the text moved?"
    );
}
