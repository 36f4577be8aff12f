/* ring N: N iterations of a pause of 2 ms, and 1 ms more on odd ranks; a message of 400 bytes to the right; an allreduce of a double. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 50;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    static int out[100], in[100];
    for (int i = 0; i < n; i++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        double mine = rank, sum;
        usleep(2000 + 1000 * (rank % 2));
        MPI_Irecv(in, 100, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, 100, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
