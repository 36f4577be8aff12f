/* layouts N [FAIL]: N steps of 1 ms, a message to the next rank and an allreduce; with FAIL ranks or more it says
 * why and ends with 3. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, out = 1, in, n = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < n; i++) {
        double mine = rank, sum;
        usleep(1000);
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    int fails = argc > 2 && size >= atoi(argv[2]);
    if (fails && rank == 0)
        fprintf(stderr, "bad input: line 7\n");
    MPI_Finalize();
    return fails ? 3 : 0;
}
