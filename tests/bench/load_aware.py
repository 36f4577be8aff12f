#!/usr/bin/env python3
"""What a placement gains that knows the load of the network, on nodes of this machine.

    tests/nodes/with_nodes --free --login --slots 1 --rate 40mbit --uplink 20mbit --leaves 3 9 \
        python3 tests/bench/load_aware.py target/release/idlewave [RUNS [MBIT RATE UPLINK]]

Three leaves of three nodes each. The third node of each leaf belongs to another job; that of the first leaf exchanges
MBIT (16) Mbit/s each way with the spine, so the uplink of its leaf is busy and its neighbours' adapters are idle.
`idlewave place load` measures this; `idlewave place` then chooses nodes for an integer sort of four ranks, one per node,
with the load and without. RATE (40) and UPLINK (20) are what the rig limits links to, in Mbit/s: slow ones, so that
the CPUs that all nodes share do not decide. Both placements run RUNS (5) times under the load, in turn. Prints what was chosen and
predicted, all times, and the median with the least and the most.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
PORT, PACKET = 9, 1400
WORKLOAD = ["--workload", "is:W", "-n", "4", "--per-node", "1", "--cores", "1", "--work", "30ms"]


def send(host, mbit, seconds):
    """Sends UDP at a rate until the time is over or the parent is gone."""
    parent = os.getppid()
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gap, begun, sent = PACKET * 8 / (mbit * 1e6), time.monotonic(), 0
    while (now := time.monotonic()) - begun < seconds and os.getppid() == parent:
        # What is due by now; not more than 20 ms at once after a wait for the CPU.
        due = int((now - begun) / gap)
        sent = max(sent, due - int(0.02 / gap))
        while sent < due:
            out.sendto(bytes(PACKET), (host, PORT))
            sent += 1
        time.sleep(0.002)


def counters(path):
    """The counters of the leaves' uplinks as snmpwalk would print them."""
    shown = subprocess.run(["ip", "-s", "-j", "link"], check=True, capture_output=True, text=True)
    links = {link["ifname"]: link["stats64"] for link in json.loads(shown.stdout)}
    lines = []
    for leaf in (1, 2, 3):
        port = links[f"up{leaf}"]
        lines += [
            f"SNMPv2-MIB::sysName.0 = STRING: leaf{leaf}",
            f"IF-MIB::ifName.1 = STRING: up{leaf}",
            "IF-MIB::ifAlias.1 = STRING: to spine",
            f"IF-MIB::ifHCInOctets.1 = Counter64: {port['rx']['bytes']}",
            f"IF-MIB::ifHCOutOctets.1 = Counter64: {port['tx']['bytes']}",
        ]
    path.write_text("\n".join(lines) + "\n")


def main(idlewave, runs=5, mbit=16, rate=40, uplink=20):
    idlewave = str(pathlib.Path(idlewave).resolve())
    nodes = os.environ["IDLEWAVE_NODES"].split()
    topology = os.environ["IDLEWAVE_NODES_TOPOLOGY"]
    others = [nodes[2], nodes[5], nodes[8]]
    # All nodes see this directory.
    here = pathlib.Path(tempfile.mkdtemp(dir=os.environ["IDLEWAVE_NODES_RIG"]))
    spine = socket.gethostbyname(socket.gethostname())
    # What nobody reads is dropped, without replies.
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("0.0.0.0", PORT))
    me = [sys.executable, str(pathlib.Path(__file__).resolve()), "send"]
    agent = str(HERE / "nodes/agent")
    limit = str(120 + 60 * runs)
    load = [
        subprocess.Popen([agent, others[0], *me, spine, str(mbit), limit]),
        subprocess.Popen([*me, others[0], str(mbit), limit]),
    ]

    def said(*words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout

    def mpirun(hosts, *words):
        hosts = ",".join(hosts)
        return said("mpirun.openmpi", "-n", str(hosts.count(",") + 1), "--host", hosts, *words)

    try:
        time.sleep(2)
        (here / "jobs").write_text(f"7|RUNNING|{','.join(others)}\n")
        counters(here / "a")
        time.sleep(5)
        counters(here / "b")
        print(mpirun(nodes, idlewave, "place", "load", "--topology", topology, "--jobs", str(here / "jobs"),
                     "--switch-counters", str(here / "a"), "--switch-counters", str(here / "b"),
                     "-o", str(here / "load.toml")))
        answer = json.loads(said(
            idlewave, "place", *WORKLOAD, "--topology", topology, "--adapter", f"{rate}Mbit/s",
            "--uplink", f"{uplink}Mbit/s",
            "--load", str(here / "load.toml"), "--json"))
        effect = answer["load"]
        blind, aware = effect["blind"]["nodes"], answer["nodes"]
        best = answer["rows"][answer["best"]]["seconds"]
        number = lambda names: " ".join(f"n{nodes.index(name) + 1}" for name in names)
        for name, hosts, of in (("load-blind", blind, effect["blind"]["seconds"]), ("load-aware", aware, best)):
            print(f"{name}: {number(hosts)}, predicted {of['value']:.2f} s ({of['low']:.2f} to {of['high']:.2f})")
        if not effect["changed"]:
            sys.exit("the load did not change the choice")
        times = {"load-blind": [], "load-aware": []}
        for _ in range(runs):
            for name, hosts in (("load-blind", blind), ("load-aware", aware)):
                done = json.loads(mpirun(hosts, idlewave, "measure", "is", "--class", "W", "--json"))
                times[name].append(seconds_of(done))
        for name, all_of in times.items():
            shown = " ".join(f"{t:.2f}" for t in all_of)
            print(f"{name}: median {statistics.median(all_of):.2f} s ({min(all_of):.2f}..{max(all_of):.2f}), n = {runs}: {shown}")
        ratios = [b / a for b, a in zip(times["load-blind"], times["load-aware"])]
        print(f"blind over aware, pairs in turn: median {statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})")
    finally:
        for process in load:
            process.terminate()
            process.wait()


def seconds_of(done):
    """The time of the benchmark on its slowest rank."""
    totals = []

    def look(value):
        if isinstance(value, dict):
            if "verification" in value and "total" in value:
                totals.append(value["total"])
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                look(one)

    look(done)
    return max(totals) * 1e-9


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "send":
        send(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
