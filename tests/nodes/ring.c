/* ring ITERATIONS EXIT_CODE [DIRECTORY]: a message around the ring and an allreduce per iteration. With a directory it
 * says `half` there at the half of its iterations, and goes on when it finds `go`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, iterations = atoi(argv[1]);
    double x = 1, y = 0;
    char path[1024];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < iterations; i++) {
        if (argc > 3 && 2 * i == iterations) {
            if (rank == 0) {
                snprintf(path, sizeof path, "%s/half", argv[3]);
                fclose(fopen(path, "w"));
            }
            snprintf(path, sizeof path, "%s/go", argv[3]);
            while (access(path, F_OK) != 0)
                usleep(1000);
        }
        MPI_Sendrecv(&x, 1, MPI_DOUBLE, (rank + 1) % size, 1, &y, 1, MPI_DOUBLE, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return y == size ? atoi(argv[2]) : 99;
}
