/* short_calls N: N times, ranks 2k and 2k + 1 send each other 8 bytes, one after the other: two calls each, and no computation.
 * Rank 0 prints the seconds that the loop took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long n = argc > 1 ? atol(argv[1]) : 100000;
    int partner = rank ^ 1;
    double out = rank, in;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        if (rank % 2) {
            MPI_Recv(&in, 1, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&out, 1, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD);
        } else {
            MPI_Send(&out, 1, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(&in, 1, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (!rank)
        printf("seconds %f\n", MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
