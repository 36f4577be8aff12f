"""Prints a Perfetto trace a line per event, by Perfetto's own description of the format.

crates/observe/formats/tests/perfetto.rs compares that with what it decodes itself.
"""

import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

# Names of TrackEvent.Type.
TYPES = {1: "begin", 2: "end", 3: "point"}


def values(message):
    """Values of all fields, in order of their numbers."""
    fields = sorted(message.ListFields(), key=lambda field: field[0].number)
    return ",".join(str(value) for _, value in fields)


def lines(packet):
    machine = f"machine {packet.machine_id} " if packet.HasField("machine_id") else ""
    kind = packet.WhichOneof("data")
    if kind == "system_info":
        system = packet.system_info
        yield f"{machine}system {system.utsname.sysname} {system.utsname.release} {system.machine_name}"
    elif kind == "process_tree":
        for process in packet.process_tree.processes:
            yield f"{machine}process {process.pid} {','.join(process.cmdline)} {int(process.is_kthread)}"
        for thread in packet.process_tree.threads:
            yield f"{machine}thread {thread.tid} {thread.name} {thread.tgid}"
    elif kind == "ftrace_events":
        bundle = packet.ftrace_events
        for event in bundle.event:
            by = event.pid if event.HasField("pid") else "-"
            name = event.WhichOneof("event")
            yield f"{machine}CPU {bundle.cpu} {event.timestamp} {by} {name} {values(getattr(event, name))}"
    elif kind == "track_descriptor":
        track = packet.track_descriptor
        yield f"track {track.uuid} in {track.parent_uuid} {track.name}"
    elif kind == "track_event":
        event = packet.track_event
        line = f"{packet.timestamp} {TYPES[event.type]} {event.track_uuid} {event.name}"
        for detail in event.debug_annotations:
            value = detail.string_value if detail.HasField("string_value") else detail.uint_value
            line += f" {detail.name}={value}"
        line += "".join(f" >{flow}" for flow in event.flow_ids)
        line += "".join(f" x{flow}" for flow in event.terminating_flow_ids)
        yield line.rstrip()
    else:
        yield f"other: {kind}"


trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
for packet in trace.packet:
    for line in lines(packet):
        print(line)
