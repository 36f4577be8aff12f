//! Folded lists of host names, "n[001-016,020]", as Slurm (`man srun`, --nodelist) and Flux (RFC 29) read them.

/// The names in their order, folded. Numbers at the end of a name fold, in ranges as far as they rise by one and keep their zeros:
/// a range is written out with as many digits as its first number has.
pub fn fold_hostlist<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for name in names {
        let (prefix, number) = split(name);
        if let Some(last) = groups.last_mut() {
            if last.prefix == prefix && last.take(number) {
                continue;
            }
        }
        let ranges = number.iter().map(|n| Range::of(n)).collect();
        groups.push(Group { prefix, ranges });
    }
    let parts: Vec<String> = groups.iter().map(Group::text).collect();
    parts.join(",")
}

/// The name without the number at its end, and the number's digits.
pub(super) fn split(name: &str) -> (&str, Option<&str>) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[prefix.len()..];
    // Longer ones are serial numbers, and do not fit a machine's integers.
    if digits.is_empty() || digits.len() > 15 {
        return (name, None);
    }
    (prefix, Some(digits))
}

struct Group<'a> {
    prefix: &'a str,
    ranges: Vec<Range<'a>>,
}

struct Range<'a> {
    first: &'a str,
    last: String,
}

impl<'a> Range<'a> {
    fn of(number: &'a str) -> Self {
        Self {
            first: number,
            last: number.to_owned(),
        }
    }
}

impl<'a> Group<'a> {
    /// Takes the number in, if it may stand in these brackets.
    fn take(&mut self, number: Option<&'a str>) -> bool {
        let (Some(number), Some(last)) = (number, self.ranges.last_mut()) else {
            return false;
        };
        let width = last.first.len();
        let next = last
            .last
            .parse::<u64>()
            .map(|n| format!("{:0width$}", n + 1));
        if next.is_ok_and(|next| next == number) {
            last.last = number.to_owned();
            return true;
        }
        let padded = |n: &str| n.len() > 1 && n.starts_with('0');
        let same = number.len() == width || !(padded(number) || padded(last.first));
        if same {
            self.ranges.push(Range::of(number));
        }
        same
    }

    fn text(&self) -> String {
        let range = |r: &Range<'_>| match r.first == r.last {
            true => r.first.to_owned(),
            false => format!("{}-{}", r.first, r.last),
        };
        match self.ranges.as_slice() {
            [] => self.prefix.to_owned(),
            [one] if one.first == one.last => format!("{}{}", self.prefix, one.first),
            many => {
                let many: Vec<String> = many.iter().map(range).collect();
                format!("{}[{}]", self.prefix, many.join(","))
            }
        }
    }
}
