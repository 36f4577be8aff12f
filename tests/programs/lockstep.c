/* Every rank repeats a fixed computation and then waits for others, and keeps its own account of when.
 *
 * lockstep MODE ITERATIONS MICROSECONDS CPUS FILE
 *   MODE    barrier, allreduce, or ring: 1024 bytes to and from both neighbours with Isend, Irecv, Waitall
 *   CPUS    of each rank, in order: 0,1,0,1; a rank beyond the list is not bound, none with -
 *   FILE    rank N writes FILE.N: per iteration begin, arrival and end in nanoseconds of CLOCK_MONOTONIC
 * The computation takes MICROSECONDS where nothing disturbs it: it is calibrated once, by rank 0, and is work
 * from then on, not time. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MESSAGE = 1024 };

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static volatile uint64_t sink;

static void work(uint64_t steps)
{
    uint64_t a = 1, b = 1;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t c = a + b;
        a = b;
        b = c;
        __asm__ volatile("" : "+r"(a), "+r"(b));
    }
    sink = b;
}

/* The quietest of several windows: a disturbed one would make all iterations too short. */
static uint64_t calibrate(uint64_t nanoseconds)
{
    const uint64_t steps = 100000;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
        uint64_t begin = now();
        work(steps);
        uint64_t took = now() - begin;
        if (took < best)
            best = took;
    }
    return nanoseconds * steps / (best ? best : 1);
}

static void bind(const char *cpus, int rank)
{
    char *list = strdup(cpus), *rest = list, *one;
    for (int i = 0; (one = strsep(&rest, ",")); i++) {
        if (i != rank || !strcmp(one, "-"))
            continue;
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(atoi(one), &set);
        if (sched_setaffinity(0, sizeof set, &set))
            perror("sched_setaffinity");
    }
    free(list);
}

/* Launchers such as MPICH's give each rank a session of its own, which the kernel would give no more of a CPU
 * than the session of any other program (sched(7), autogroups). Needs root's rights; nothing happens without. */
static void go_before_others(void)
{
    FILE *file = fopen("/proc/self/autogroup", "w");
    if (file) {
        fputs("-20", file);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: lockstep barrier|allreduce|ring ITERATIONS MICROSECONDS CPUS FILE\n");
        return 2;
    }
    const char *mode = argv[1];
    int iterations = atoi(argv[2]), rank, size;
    go_before_others();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bind(argv[4], rank);
    uint64_t steps = rank == 0 ? calibrate((uint64_t)atoi(argv[3]) * 1000u) : 0;
    MPI_Bcast(&steps, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);

    uint64_t(*times)[3] = calloc((size_t)iterations, sizeof *times);
    static char out[2][MESSAGE], in[2][MESSAGE];
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < iterations; i++) {
        times[i][0] = now();
        work(steps);
        times[i][1] = now();
        if (!strcmp(mode, "barrier")) {
            MPI_Barrier(MPI_COMM_WORLD);
        } else if (!strcmp(mode, "allreduce")) {
            double mine = i, all = 0;
            MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            if (all != (double)i * size)
                MPI_Abort(MPI_COMM_WORLD, 3);
        } else {
            MPI_Request requests[4];
            MPI_Irecv(in[0], MESSAGE, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(in[1], MESSAGE, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(out[0], MESSAGE, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(out[1], MESSAGE, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[3]);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        }
        times[i][2] = now();
    }
    MPI_Finalize();

    char name[4096];
    snprintf(name, sizeof name, "%s.%d", argv[5], rank);
    FILE *file = fopen(name, "w");
    if (!file)
        return 1;
    for (int i = 0; i < iterations; i++)
        fprintf(file, "%llu %llu %llu\n", (unsigned long long)times[i][0], (unsigned long long)times[i][1],
                (unsigned long long)times[i][2]);
    return fclose(file) ? 1 : 0;
}
