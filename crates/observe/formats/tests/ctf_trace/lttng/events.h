/* Events of programs with the names and fields that lttng-modules 2.13 gives those of the kernel. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sched
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./events.h"

#if !defined(EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(sched, sched_switch,
    LTTNG_UST_TP_ARGS(const char *, prev_comm, int, prev, long, state, const char *, next_comm, int, next),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_array_text(char, prev_comm, prev_comm, 16)
        lttng_ust_field_integer(int32_t, prev_tid, prev)
        lttng_ust_field_integer(int32_t, prev_prio, 20)
        lttng_ust_field_integer(long, prev_state, state)
        lttng_ust_field_array_text(char, next_comm, next_comm, 16)
        lttng_ust_field_integer(int32_t, next_tid, next)
        lttng_ust_field_integer(int32_t, next_prio, 20)))

LTTNG_UST_TRACEPOINT_EVENT(sched, sched_waking,
    LTTNG_UST_TP_ARGS(const char *, comm, int, tid, int, cpu),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_array_text(char, comm, comm, 16)
        lttng_ust_field_integer(int32_t, tid, tid)
        lttng_ust_field_integer(int32_t, prio, 20)
        lttng_ust_field_integer(int32_t, target_cpu, cpu)))

LTTNG_UST_TRACEPOINT_EVENT(sched, sched_process_fork,
    LTTNG_UST_TP_ARGS(const char *, comm, int, parent, int, child, const int *, tids, unsigned, levels),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_array_text(char, parent_comm, comm, 16)
        lttng_ust_field_integer(int32_t, parent_tid, parent)
        lttng_ust_field_integer(int32_t, parent_pid, parent)
        lttng_ust_field_integer(unsigned int, parent_ns_inum, 1)
        lttng_ust_field_array_text(char, child_comm, comm, 16)
        lttng_ust_field_integer(int32_t, child_tid, child)
        lttng_ust_field_sequence(int32_t, vtids, tids, uint8_t, levels)
        lttng_ust_field_integer(int32_t, child_pid, parent)
        lttng_ust_field_integer(unsigned int, child_ns_inum, 1)))

LTTNG_UST_TRACEPOINT_EVENT(sched, irq_handler_entry,
    LTTNG_UST_TP_ARGS(int, irq, const char *, name),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, irq, irq)
        lttng_ust_field_string(name, name)))

LTTNG_UST_TRACEPOINT_EVENT(sched, irq_handler_exit,
    LTTNG_UST_TP_ARGS(int, irq),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, irq, irq)
        lttng_ust_field_integer(int, ret, 1)))

/* Types that the kernel's events do not have, before one that is used. */
LTTNG_UST_TRACEPOINT_ENUM(sched, kinds, LTTNG_UST_TP_ENUM_VALUES(
    lttng_ust_field_enum_value("NONE", 0)
    lttng_ust_field_enum_range("SOME", 1, 7)))

LTTNG_UST_TRACEPOINT_EVENT(sched, sched_migrate_task,
    LTTNG_UST_TP_ARGS(const char *, comm, int, tid, int, from, int, to, const int *, list, unsigned, count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_float(double, load, count / 2.0)
        lttng_ust_field_float(float, small_load, count / 2.0)
        lttng_ust_field_integer_network(int, network, tid)
        lttng_ust_field_enum(sched, kinds, char, kind, count)
        lttng_ust_field_sequence(int, list, list, unsigned, count)
        lttng_ust_field_sequence_text(char, few, comm, unsigned char, count)
        lttng_ust_field_array(short, pairs, list, 3)
        lttng_ust_field_array_text(char, comm, comm, 16)
        lttng_ust_field_integer(int32_t, tid, tid)
        lttng_ust_field_integer(int32_t, prio, 20)
        lttng_ust_field_integer(int32_t, orig_cpu, from)
        lttng_ust_field_integer(int32_t, dest_cpu, to)))

#endif

#include <lttng/tracepoint-event.h>
