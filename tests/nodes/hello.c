/* Says where each rank runs, and adds up the ranks: a job that is really one. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, sum;
    char name[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(name, sizeof name);
    printf("rank %d of %d on %s cpu %d sum %d\n", rank, size, name, sched_getcpu(), sum);
    MPI_Finalize();
    return 0;
}
