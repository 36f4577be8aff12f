# Part of with_nodes: a Slurm cluster on its nodes. The controller and munge run on the login node; all their files
# are in the rig's memory, and go with it.
# shellcheck shell=bash disable=SC2154

for tool in slurmctld slurmd srun sinfo munged; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: Slurm needs $tool" >&2
        exit 77
    fi
done
mkdir -p "$rig"/munge "$rig"/slurm/state
head -c 1024 /dev/urandom >"$rig/munge/key"
chmod 600 "$rig/munge/key"
export SLURM_CONF=$rig/slurm/slurm.conf
cat >"$SLURM_CONF" <<CONF
ClusterName=$base
SlurmctldHost=${base}ctl($(address 254))
AuthType=auth/munge
AuthInfo=socket=$rig/munge/socket
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile=$rig/slurm/ctld.pid
SlurmdPidFile=$rig/slurm/%n.pid
SlurmctldLogFile=$rig/slurm/ctld.log
SlurmdLogFile=$rig/slurm/%n.log
StateSaveLocation=$rig/slurm/state
SlurmdSpoolDir=/tmp/slurmd
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
InactiveLimit=0
# On a busy machine answers take longer than Slurm's own limits, 2 s of a connection above all.
TCPTimeout=60
MessageTimeout=100
BatchStartTimeout=300
KillWait=2
WaitTime=0
MailProg=/bin/true
CONF
for k in $(seq "$count"); do
    echo "NodeName=${names[k - 1]} NodeAddr=$(address "$k") CPUs=$slots Sockets=1 CoresPerSocket=$slots ThreadsPerCore=1 RealMemory=1 State=UNKNOWN" >>"$SLURM_CONF"
done
share=YES
if [ -n "$gang" ]; then
    # How it switches is told in its log.
    printf '%s\n' PreemptMode=GANG PreemptType=preempt/none "SchedulerTimeSlice=$gang" DebugFlags=Gang >>"$SLURM_CONF"
    share=FORCE:2
fi
(IFS=, && echo "PartitionName=nodes Nodes=${names[*]} Default=YES State=UP OverSubscribe=$share" >>"$SLURM_CONF")

munged --foreground --force --socket="$rig/munge/socket" --key-file="$rig/munge/key" --pid-file="$rig/munge/pid" \
    --log-file="$rig/munge/log" --seed-file="$rig/munge/seed" </dev/null >/dev/null 2>&1 &
holders+=($!) && disown
for _ in $(seq 6000); do
    [ -S "$rig/munge/socket" ] && break
    sleep 0.01
done
slurmctld -D -c </dev/null >"$rig/slurm/ctld.out" 2>&1 &
holders+=($!) && disown
for name in "${names[@]}"; do
    "$here/agent" --keep "$name" slurmd -D -N "$name" </dev/null >"$rig/slurm/$name.out" 2>&1 &
    holders+=($!) && disown
done
for _ in $(seq 1800); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = "$count" ] && break
    sleep 0.1
done
if [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != "$count" ]; then
    echo "failed to start Slurm on $count nodes" >&2
    tail -n 5 "$rig"/slurm/*.log "$rig"/slurm/*.out >&2
    exit 1
fi
