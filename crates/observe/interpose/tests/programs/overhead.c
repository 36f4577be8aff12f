/* Nanoseconds per call, the median of blocks, of one case on all ranks: printed by rank 0. See examples/overhead.rs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define BLOCKS 60
#define W MPI_COMM_WORLD

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const char *what = argv[1];
    int rank, size, calls = 1000;
    double blocks[BLOCKS], x = 1, y = 0;
    char message[8] = {0}, other[8];
    volatile unsigned long long sink = 0;
    struct timespec t;
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    for (int b = -5; b < BLOCKS; b++) {
        MPI_Barrier(W);
        double begin = now();
        if (!strcmp(what, "counter")) {
#if defined(__x86_64__)
            for (int i = 0; i < calls / 2; i++) {
                sink += __rdtsc();
                sink += __rdtsc();
            }
#endif
        } else if (!strcmp(what, "clock")) {
            for (int i = 0; i < calls; i++)
                sink += clock_gettime(CLOCK_MONOTONIC, &t);
        } else if (!strcmp(what, "size"))
            for (int i = 0; i < calls; i++)
                MPI_Comm_size(W, &size);
        else if (!strcmp(what, "null"))
            for (int i = 0; i < calls; i++)
                MPI_Send(message, 8, MPI_CHAR, MPI_PROC_NULL, 0, W);
        else if (!strcmp(what, "poll")) {
            int flag;
            for (int i = 0; i < calls; i++)
                MPI_Iprobe(MPI_ANY_SOURCE, 1, W, &flag, MPI_STATUS_IGNORE);
        } else if (!strcmp(what, "pingpong"))
            for (int i = 0; i < calls / 2; i++) {
                if (rank == 0) {
                    MPI_Send(message, 8, MPI_CHAR, 1, 0, W);
                    MPI_Recv(message, 8, MPI_CHAR, 1, 0, W, MPI_STATUS_IGNORE);
                } else {
                    MPI_Recv(message, 8, MPI_CHAR, 0, 0, W, MPI_STATUS_IGNORE);
                    MPI_Send(message, 8, MPI_CHAR, 0, 0, W);
                }
            }
        else if (!strcmp(what, "self"))
            for (int i = 0; i < calls / 3; i++) {
                MPI_Request q[2];
                MPI_Irecv(other, 8, MPI_CHAR, 0, 0, MPI_COMM_SELF, q);
                MPI_Isend(message, 8, MPI_CHAR, 0, 0, MPI_COMM_SELF, q + 1);
                MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
            }
        else if (!strcmp(what, "allreduce"))
            for (int i = 0; i < calls; i++)
                MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, W);
        else
            return 2;
        if (b >= 0)
            blocks[b] = (now() - begin) / calls;
    }
    qsort(blocks, BLOCKS, sizeof *blocks, ascending);
    if (rank == 0)
        printf("%.2f\n", blocks[BLOCKS / 2]);
    MPI_Finalize();
    return 0;
}
