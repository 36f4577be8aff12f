#!/usr/bin/env python3
"""Reads NAME.prv, NAME.pcf and NAME.row strictly and computes matrices, independently of idlewave.

Every rule by which Paraver's parser drops a record or refuses a trace is an error here, and so is
what it tolerates but a good trace has not: records out of order, types without a name, states of a
thread that overlap, numbers of states or values beyond what is named.

Prints a JSON object: `matrix` (thread label -> CPU label -> [time, bursts]) from event 60000001,
`states` (thread label -> state name -> [time, number]), `records` (states, events, communications),
`events` (type -> number), `messages` (list), `end`, `communicators`. On errors it prints them to
standard error and ends with 1.
"""
import json
import re
import sys
from collections import defaultdict

CPU_OF_TASK = 60000001
errors = []


def wrong(place, what):
    if len(errors) < 20:
        errors.append(f"{place}: {what}")


def header(line):
    found = re.fullmatch(r"#Paraver \(([^)]*)\):(\d+)_ns:(.*)", line)
    if not found:
        raise SystemExit(f"header: {line[:100]!r}")
    if not re.fullmatch(r"\d\d/\d\d/\d{4} at \d\d:\d\d", found[1]):
        wrong("header", f"date {found[1]}")
    end, rest = int(found[2]), found[3]
    found = re.match(r"(\d+)\(([\d,]+)\):(\d+)", rest)
    if not found:
        raise SystemExit(f"header: nodes in {rest[:100]!r}")
    cpus = [int(n) for n in found[2].split(",")]
    if len(cpus) != int(found[1]) or min(cpus) < 1:
        wrong("header", f"{found[1]} nodes, CPUs {cpus}")
    rest, applications = rest[found.end():], []
    for _ in range(int(found[3])):
        found = re.match(r":(\d+)\(([\d:,]+)\)", rest)
        if not found:
            raise SystemExit(f"header: application in {rest[:100]!r}")
        tasks = [tuple(map(int, t.split(":"))) for t in found[2].split(",")]
        if len(tasks) != int(found[1]):
            wrong("header", f"{found[1]} tasks, {len(tasks)} listed")
        for threads, node in tasks:
            if threads < 1 or not 1 <= node <= len(cpus):
                wrong("header", f"a task has {threads} threads on node {node}")
        applications.append(tasks)
        rest = rest[found.end():]
    communicators = 0
    if rest:
        found = re.fullmatch(r",(\d+)", rest)
        if not found:
            raise SystemExit(f"header: {rest[:100]!r}")
        communicators = int(found[1])
    return end, cpus, applications, communicators


def rows(path):
    levels, lines = {}, open(path, encoding="utf-8").read().split("\n")
    at = 0
    while at < len(lines):
        if lines[at] == "":
            at += 1
            continue
        found = re.fullmatch(r"LEVEL (WORKLOAD|APPL|TASK|THREAD|SYSTEM|NODE|CPU) SIZE (\d+)", lines[at])
        if not found:
            raise SystemExit(f"{path}: line {at + 1}: {lines[at]!r}")
        size = int(found[2])
        labels = lines[at + 1:at + 1 + size]
        if len(labels) != size or any(not l.strip() for l in labels):
            wrong(path, f"labels of {found[1]}")
        levels[found[1]] = labels
        at += 1 + size
    return levels


def names(path):
    states, types, section, open_types, in_values = {}, {}, None, [], False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if line and not line.strip():
            wrong(path, f"line {number} is blank but not empty")
        if not line.strip() or line.startswith("#"):
            continue
        if re.fullmatch(r"[A-Z_]+", line):
            if line == "VALUES":
                in_values = True
                continue
            section, in_values = line, False
            if section == "EVENT_TYPE":
                open_types = []
            continue
        if section == "STATES":
            found = re.fullmatch(r"(\d+)\s+(\S.*)", line)
            states[int(found[1])] = found[2]
        elif section == "STATES_COLOR":
            found = re.fullmatch(r"(\d+)\s+\{(\d+),(\d+),(\d+)\}", line)
            if not found or int(found[1]) not in states:
                wrong(path, f"line {number}: {line}")
        elif section == "EVENT_TYPE" and in_values:
            found = re.fullmatch(r"(\d+)\s+(\S.*)", line)
            if not found:
                wrong(path, f"line {number}: {line!r}")
                continue
            for kind in open_types:
                types[kind][int(found[1])] = found[2]
        elif section == "EVENT_TYPE":
            found = re.fullmatch(r"(\d+)\s+(\d+)\s+(\S.*)", line)
            if not found or int(found[2]) in types:
                wrong(path, f"line {number}: {line!r}")
                continue
            open_types.append(int(found[2]))
            types[int(found[2])] = {}
        elif section not in ("DEFAULT_OPTIONS", "DEFAULT_SEMANTIC"):
            wrong(path, f"line {number}: {line!r} in section {section}")
    return states, types


def main(path):
    stem = path[:-4]
    state_names, type_names = names(stem + ".pcf")
    levels = rows(stem + ".row")
    file = open(path, encoding="ascii")
    end, cpus, applications, communicators = header(file.readline().rstrip("\n"))
    all_cpus = sum(cpus)
    node_of_cpu = [0] + [node for node, n in enumerate(cpus, 1) for _ in range(n)]
    label, at = {}, 0
    for a, tasks in enumerate(applications, 1):
        for t, (threads, _) in enumerate(tasks, 1):
            for th in range(1, threads + 1):
                label[a, t, th] = levels["THREAD"][at] if at < len(levels["THREAD"]) else "?"
                at += 1
    sizes = {"THREAD": at, "CPU": all_cpus, "NODE": len(cpus), "APPL": len(applications),
             "TASK": sum(len(tasks) for tasks in applications)}
    for level, size in sizes.items():
        if len(levels.get(level, [])) != size:
            wrong(stem + ".row", f"{level} has {len(levels.get(level, []))} labels, not {size}")

    def check(place, cpu, a, t, th):
        if (a, t, th) not in label:
            return wrong(place, f"there is no object {a}.{t}.{th}")
        if not 0 <= cpu <= all_cpus:
            return wrong(place, f"there is no CPU {cpu}")
        if cpu and node_of_cpu[cpu] != applications[a - 1][t - 1][1]:
            wrong(place, f"task {a}.{t} is not on the node of CPU {cpu}")

    for number in range(communicators):
        found = re.fullmatch(r"c:(\d+):(\d+):(\d+)((?::\d+)+)", file.readline().rstrip("\n"))
        members = [int(m) for m in found[4][1:].split(":")]
        if len(members) != int(found[3]) or not all(1 <= m <= len(applications[int(found[1]) - 1]) for m in members):
            wrong(f"communicator {found[2]}", f"members {members}")

    records, last = [0, 0, 0], (0, 0)
    on_cpu, matrix = {}, defaultdict(lambda: defaultdict(lambda: [0, 0]))
    until, states = defaultdict(int), defaultdict(lambda: defaultdict(lambda: [0, 0]))
    events, messages = defaultdict(int), []
    for number, line in enumerate(file, 2 + communicators):
        place = f"line {number}"
        if not re.fullmatch(r"[123](:-?\d+)+\n", line):
            wrong(place, line[:100])
            continue
        f = [int(n) for n in line.split(":")]
        check(place, *f[1:5])
        if (f[5], f[0]) < last:
            wrong(place, f"{(f[5], f[0])} comes after {last}")
        last = (f[5], f[0])
        records[f[0] - 1] += 1
        thread = tuple(f[2:5])
        if not 0 <= f[5] <= end:
            wrong(place, f"time {f[5]}")
        if f[0] == 1:
            if len(f) != 8 or not f[5] <= f[6] <= end:
                wrong(place, line[:100])
                continue
            if f[7] not in state_names:
                wrong(place, f"state {f[7]} has no name")
            if f[5] < until[thread]:
                wrong(place, f"the state before ends at {until[thread]} only")
            until[thread] = f[6]
            cell = states[label.get(thread)][state_names.get(f[7])]
            cell[0] += f[6] - f[5]
            cell[1] += 1
        elif f[0] == 2:
            if len(f) < 8 or len(f) % 2:
                wrong(place, line[:100])
                continue
            for kind, value in zip(f[6::2], f[7::2]):
                events[kind] += 1
                if kind not in type_names or kind >= 1 << 32:
                    wrong(place, f"type {kind} has no name")
                elif type_names[kind] and value not in type_names[kind]:
                    wrong(place, f"value {value} of type {kind} has no name")
                if kind == CPU_OF_TASK:
                    if thread in on_cpu:
                        cpu, since = on_cpu.pop(thread)
                        cell = matrix[label.get(thread)][levels["CPU"][cpu - 1]]
                        cell[0] += f[5] - since
                        cell[1] += 1
                    if value:
                        on_cpu[thread] = (value, f[5])
        else:
            if len(f) != 15 or min(f[5:7] + f[11:14]) < 0 or max(f[5:7] + f[11:13]) > end:
                wrong(place, line[:100])
                continue
            check(place, *f[7:11])
            messages.append([label[thread], label.get(tuple(f[8:11])), *f[5:7], *f[11:15]])
    for thread in on_cpu:
        wrong("end", f"{label[thread]} still has a CPU")
    json.dump({"end": end, "records": records, "communicators": communicators, "matrix": matrix,
               "states": states, "events": events, "messages": messages}, sys.stdout)
    for error in errors:
        print(error, file=sys.stderr)
    return bool(errors)


sys.exit(main(sys.argv[1]))
