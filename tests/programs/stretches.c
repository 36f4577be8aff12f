/* Every rank notes when it ran: stretches of time without a gap of more than 10 ms between two looks at the clock, which it
 * takes once in a millisecond, or as often as it is told.
 *
 * stretches SECONDS STOP FILE [PAUSE]
 *   SECONDS  how long after MPI_Init, on the clock and not of time that it ran
 *   STOP     default, or ignore: what a SIGTSTP does
 *   FILE     rank N writes FILE.N: per stretch begin and end in nanoseconds of CLOCK_MONOTONIC
 *   PAUSE    microseconds from look to look (1000)
 * With STRETCHES_END in its environment it ends as soon as the file of that name is there.
 * It sleeps between the looks, so that ranks which share a CPU do not keep each other from looking: a gap is a stop. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    const uint64_t gap = 10000000u;
    struct timespec pause = {0, 1000000};
    char path[4096];
    int rank;

    if (argc < 4 || argc > 5 || atoi(argv[1]) <= 0 || (strcmp(argv[2], "default") && strcmp(argv[2], "ignore"))) {
        fprintf(stderr, "usage: stretches SECONDS default|ignore FILE [PAUSE]\n");
        return 2;
    }
    if (argc == 5) {
        int us = atoi(argv[4]);
        if (us <= 0 || us > 1000) {
            fprintf(stderr, "stretches: a pause is 1 to 1000 microseconds\n");
            return 2;
        }
        pause.tv_nsec = 1000L * us;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(argv[2], "ignore"))
        signal(SIGTSTP, SIG_IGN);
    snprintf(path, sizeof path, "%s.%d", argv[3], rank);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    uint64_t begin = now(), last = begin, until = begin + (uint64_t)atoi(argv[1]) * 1000000000u;
    const char *end = getenv("STRETCHES_END");
    while (last < until && !(end && access(end, F_OK) == 0)) {
        nanosleep(&pause, NULL);
        uint64_t t = now();
        if (t - last > gap) {
            fprintf(file, "%llu %llu\n", (unsigned long long)begin, (unsigned long long)last);
            begin = t;
        }
        last = t;
    }
    fprintf(file, "%llu %llu\n", (unsigned long long)begin, (unsigned long long)last);
    fclose(file);
    MPI_Finalize();
    return 0;
}
