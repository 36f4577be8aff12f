//! Finds circles among the modules of a crate.
//!
//! A module is a file. It uses those whose items its paths name; an item that a module above it
//! only re-exports belongs to the module that defines it. Tests at the end of a file, and files of
//! tests, are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A path of modules within the crate.
type Place = Vec<String>;

/// A file of a crate, as other files see it.
struct Module {
    file: PathBuf,
    /// Paths in its code that start at the crate, at itself or above it.
    paths: Vec<Place>,
    /// Imported names, each with the path that it comes from.
    handed_on: Vec<(String, Place)>,
}

/// The files that use each other in a circle, for each circle of the crate whose sources are in
/// `src`.
pub fn circles(src: &Path, files: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let modules: BTreeMap<Place, Module> = files
        .iter()
        .map(|file| {
            let place = place(file.strip_prefix(src).expect("a source of the crate"));
            let module = read(file, &place);
            (place, module)
        })
        .collect();
    let uses: BTreeMap<&Place, BTreeSet<Place>> = modules
        .iter()
        .map(|(place, module)| {
            let used = module.paths.iter().filter_map(|path| home(&modules, path));
            (place, used.filter(|other| other != place).collect())
        })
        .collect();
    let reach: BTreeMap<&Place, BTreeSet<&Place>> =
        uses.keys().map(|p| (*p, reached(&uses, p))).collect();
    let mut found = BTreeSet::new();
    for (place, others) in &reach {
        let circle: Vec<PathBuf> = others
            .iter()
            .filter(|other| reach[*other].contains(place))
            .map(|other| modules[*other].file.clone())
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reached<'a>(uses: &'a BTreeMap<&Place, BTreeSet<Place>>, from: &Place) -> BTreeSet<&'a Place> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&Place> = uses[from].iter().collect();
    while let Some(place) = next.pop() {
        if seen.insert(place) {
            next.extend(uses[place].iter());
        }
    }
    seen
}

fn place(file: &Path) -> Place {
    let stem = file.with_extension("");
    let parts = stem.iter().map(|part| part.to_string_lossy().into_owned());
    let mut place: Place = parts.collect();
    if matches!(
        place.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        place.pop();
    }
    place
}

/// The module that defines what a path names.
fn home(modules: &BTreeMap<Place, Module>, path: &Place) -> Option<Place> {
    let mut path = path.clone();
    // A chain of re-exports ends somewhere; a circle of them does not.
    for _ in 0..16 {
        let depth = (0..=path.len())
            .rev()
            .find(|&n| modules.contains_key(&path[..n]))?;
        let (at, rest) = path.split_at(depth);
        let Some(name) = rest.first() else {
            return Some(at.to_vec());
        };
        let from = modules[at].handed_on.iter().find(|(n, _)| n == name);
        match from {
            Some((_, source)) if *source != path => {
                let more = rest[1..].to_vec();
                path = [source.clone(), more].concat();
            }
            _ => return Some(at.to_vec()),
        }
    }
    None
}

fn read(file: &Path, place: &Place) -> Module {
    let text = fs::read_to_string(file).expect("a source that was just listed");
    let code = code_of(&text);
    let mut paths = Vec::new();
    let mut handed_on = Vec::new();
    let mut rest = code.as_str();
    while !rest.is_empty() {
        let line = rest.lines().next().unwrap_or_default();
        let used = line.trim_start().split_once("use ").filter(|(before, _)| {
            let limited = before.starts_with("pub(") && before.find(") ") == Some(before.len() - 2);
            before.is_empty() || *before == "pub " || limited
        });
        let Some((before, _)) = used else {
            rest = rest.get(line.len() + 1..).unwrap_or_default();
            continue;
        };
        let begin = rest.find("use ").map_or(0, |at| at + 4);
        let end = rest.find(';').unwrap_or(rest.len());
        for (path, name) in expanded(&rest[begin..end]) {
            let Some(path) = absolute(&path, place) else {
                continue;
            };
            // A module does not use what it only re-exports.
            if before.is_empty() {
                paths.push(path.clone());
            }
            handed_on.push((name, path));
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    // Names used by path, without a `use`. A match that ends with `::` starts a braced list.
    let inline = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let inline = inline.filter(|w| w.starts_with("crate::") || w.starts_with("super::"));
    for word in inline.filter(|w| !w.ends_with("::")) {
        let path: Place = word
            .split("::")
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect();
        paths.extend(absolute(&path, place));
    }
    // Children named directly: `child::item`.
    for child in code.lines().filter_map(|l| {
        let words = l.trim().trim_start_matches("pub").trim_start();
        let words = words.strip_prefix("(crate) ").unwrap_or(words);
        words.strip_prefix("mod ")?.strip_suffix(';')
    }) {
        let own = format!("{child}::");
        for (at, _) in code.match_indices(&own) {
            let alone =
                !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            let in_use = code[..at]
                .rsplit([';', '}'])
                .next()
                .is_some_and(|s| s.contains("use "));
            if alone && !in_use {
                let name: String = code[at + own.len()..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
                    .collect();
                let mut path = place.clone();
                path.push(child.to_owned());
                path.extend(
                    name.split("::")
                        .filter(|p| !p.is_empty())
                        .map(str::to_owned),
                );
                paths.push(path);
            }
        }
    }
    Module {
        file: file.to_owned(),
        paths,
        handed_on,
    }
}

/// Code without comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// The paths of `a::{b, c::{d as e}}`, each with its local name.
fn expanded(tree: &str) -> Vec<(Place, String)> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let (path, renamed) = match tree.split_once(" as ") {
            Some((path, name)) => (path, Some(name.trim().to_owned())),
            None => (tree, None),
        };
        let mut path: Place = path.split("::").map(|p| p.trim().to_owned()).collect();
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = renamed.or_else(|| path.last().cloned());
        return vec![(path, name.unwrap_or_default())];
    };
    let head: Place = tree[..open]
        .split("::")
        .map(|p| p.trim().to_owned())
        .filter(|p| !p.is_empty())
        .collect();
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[begin..]);
    parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .flat_map(|part| {
            let of_itself = part.trim() == "self";
            expanded(part)
                .into_iter()
                .map(move |(p, n)| (p, n, of_itself))
        })
        .map(|(path, name, of_itself)| {
            let path = [head.clone(), path].concat();
            let name = match of_itself {
                true => path.last().cloned().unwrap_or_default(),
                false => name,
            };
            (path, name)
        })
        .collect()
}

/// A path from the root of the crate; `None` for another crate.
fn absolute(path: &[String], place: &Place) -> Option<Place> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([place.as_slice(), rest].concat()),
        "super" => {
            let (_, above) = place.split_last()?;
            let mut path = [&["self".to_owned()], rest].concat();
            if rest.first().is_some_and(|r| r == "super") {
                path = rest.to_vec();
            }
            absolute(&path, &above.to_vec())
        }
        // A child of this module.
        _ => Some([place.as_slice(), path].concat()),
    }
}
