/* Tells a story of two CPUs as often as the first argument says, each CPU's part on that CPU, so that
 * LTTng writes it into the stream of that CPU. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "events.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void on(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        abort();
}

static const char solver[16] = "solver", idle[16] = "swapper", other[16] = "my daemon";
static const int list[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static void first(int round)
{
    lttng_ust_tracepoint(sched, sched_switch, idle, 0, 0, solver, 70);
    lttng_ust_tracepoint(sched, irq_handler_entry, 24, "eth0");
    lttng_ust_tracepoint(sched, irq_handler_exit, 24);
    lttng_ust_tracepoint(sched, sched_process_fork, solver, 70, 1000 + round, list, round % 3);
    lttng_ust_tracepoint(sched, sched_switch, solver, 70, 1, idle, 0);
}

static void second(int round)
{
    lttng_ust_tracepoint(sched, sched_switch, idle, 0, 0, solver, 71);
    lttng_ust_tracepoint(sched, sched_waking, other, 9, 1);
    lttng_ust_tracepoint(sched, sched_migrate_task, other, 9, 1, round % 2, list, round % 8);
    lttng_ust_tracepoint(sched, sched_switch, solver, 71, 256, other, 9);
    lttng_ust_tracepoint(sched, sched_switch, other, 9, 2, idle, 0);
}

int main(int count, char **words)
{
    int rounds = count > 1 ? atoi(words[1]) : 1;
    /* Rounds told without a pause. */
    int at_once = count > 2 ? atoi(words[2]) : 1;

    for (int round = 0; round < rounds; round += at_once) {
        on(0);
        for (int more = 0; more < at_once; more++)
            first(round + more);
        on(1);
        for (int more = 0; more < at_once; more++)
            second(round + more);
    }
    return 0;
}
