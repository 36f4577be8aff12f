"""What a trace of PyTorch's profiler says, by the json module: `kineto.py FILE...`.

Prints, for each file, its rank, its collectives (name, start of their launch, end or start of what the
thread did next) and its annotations (name, thread, start, end). Times are in nanoseconds from the base of the first file.
"""

import decimal
import gzip
import json
import sys

LAUNCH = {
    "gloo:all_reduce": "c10d::allreduce_",
    "gloo:broadcast": "c10d::broadcast_",
    "gloo:barrier": "c10d::barrier",
}


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as file:
        return json.load(file, parse_float=decimal.Decimal)


def ns(us):
    value = us * 1000
    assert value == int(value), f"{us} is no whole number of nanoseconds"
    return int(value)


def of_file(trace, first_base):
    shift = trace["baseTimeNanoseconds"] - first_base
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    events = [e for e in events if e["cat"] in ("cpu_op", "user_annotation")]
    span = lambda e: (ns(e["ts"]) + shift, ns(e["ts"]) + ns(e["dur"]) + shift)
    process = events[0]["pid"]
    main = [e for e in events if e["tid"] == process]
    launches = {}
    for event in sorted(main, key=lambda e: e["ts"]):
        begin, end = span(event)
        after = min((span(e)[0] for e in main if span(e)[0] >= end), default=None)
        launches.setdefault(event["name"], []).append((begin, after))
    collectives, marks, seen = [], [], {}
    for event in sorted(events, key=lambda e: e["ts"]):
        name = event["name"]
        if event["cat"] != "user_annotation":
            continue
        if name.startswith("gloo:"):
            begins = launches[LAUNCH[name]]
            at = seen[name] = seen.get(name, -1) + 1
            (begin, after), end = begins[at], span(event)[1]
            collectives.append([name, begin, end if after is None else min(end, after)])
        else:
            name = "ProfilerStep" if name.startswith("ProfilerStep#") else name
            marks.append([name, event["tid"], *span(event)])
    return {
        "rank": trace["distributedInfo"]["rank"],
        "process": process,
        "events": len(trace["traceEvents"]),
        "collectives": collectives,
        "marks": marks,
    }


def main():
    traces = [load(path) for path in sys.argv[1:]]
    base = traces[0]["baseTimeNanoseconds"]
    json.dump([of_file(trace, base) for trace in traces], sys.stdout)


main()
