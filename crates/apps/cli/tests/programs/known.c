/* A program whose calls, messages and bytes are known by arithmetic; and ways to end badly.
 *
 * known N [end [directory]]: N iterations of: irecv and isend of 100 ints on a ring, waitall, allreduce of a double; then an alltoall of
 * 3 ints, and a self message of 5 bytes. `end` is one of: crash, abort, exit, code, sleep, pending. Before it sleeps, rank R
 * makes the file sleeps.R in the directory, and the file finalised.R after MPI_Finalize. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file of a rank in the directory. */
static const char *file_of(const char *directory, const char *what, int rank) {
    static char name[4096];
    snprintf(name, sizeof name, "%s/%s.%d", directory, what, rank);
    return name;
}

static void make(const char *path) {
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 100;
    const char *end = argc > 2 ? argv[2] : "";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    static int out[300], in[300];
    for (int i = 0; i < n; i++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        double mine = rank, sum;
        MPI_Irecv(in, 300, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, 100, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Alltoall(out, 3, MPI_INT, in, 3, MPI_INT, MPI_COMM_WORLD);
    MPI_Comm self;
    char letters[8] = "abcd", got[8];
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MPI_Sendrecv(letters, 5, MPI_CHAR, 0, 3, got, 8, MPI_CHAR, 0, 3, self, MPI_STATUS_IGNORE);
    MPI_Comm_free(&self);
    printf("out of rank %d\n", rank);
    fflush(stdout);
    if (!strcmp(end, "crash") && rank == size - 1)
        raise(SIGSEGV);
    if (!strcmp(end, "abort") && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (!strcmp(end, "exit") && rank == size - 1)
        _exit(3);
    if (argc > 3)
        make(file_of(argv[3], "sleeps", rank));
    if (!strcmp(end, "sleep") || !strcmp(end, "crash") || !strcmp(end, "abort") || !strcmp(end, "exit"))
        sleep(60);
    MPI_Finalize();
    if (argc > 3)
        make(file_of(argv[3], "finalised", rank));
    /* At the first exit code that is not 0 a launcher ends the other ranks: all have finalised before. */
    for (int i = 0; argc > 3 && !strcmp(end, "code") && i < size; i++)
        for (int n = 0; access(file_of(argv[3], "finalised", i), F_OK) && n < 300000; n++)
            usleep(1000);
    return !strcmp(end, "code") ? 5 : 0;
}
