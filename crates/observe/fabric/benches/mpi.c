/* What benches/mpi.rs measures, by a C program that is linked to the library: the floor. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char to_send[1024], to_fill[1024];
static int other;

static void turn(MPI_Request *request)
{
    int done = 0;
    MPI_Status status;
    while (MPI_Test(request, &done, &status), !done) {
    }
}

static void start(MPI_Request *receive, MPI_Request *send)
{
    MPI_Irecv(to_fill, 1024, MPI_BYTE, other, 0, MPI_COMM_WORLD, receive);
    MPI_Isend(to_send, 1024, MPI_BYTE, other, 0, MPI_COMM_WORLD, send);
}

static void once(int what)
{
    MPI_Request request, send;
    MPI_Status status;
    double value = 1.0;
    switch (what) {
    case 0: MPI_Barrier(MPI_COMM_WORLD); break;
    case 1: MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case 2: start(&request, &send); MPI_Wait(&request, &status); MPI_Wait(&send, &status); break;
    case 3: MPI_Ibarrier(MPI_COMM_WORLD, &request); turn(&request); break;
    case 4:
        MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        turn(&request);
        break;
    default: start(&request, &send); turn(&request); turn(&send); break;
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int blocks = atoi(argv[1]), calls = atoi(argv[2]), rank;
    (void)argc;
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    for (int block = 0; block < blocks; block++) {
        for (int what = 0; what < 6; what++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = now();
            for (int i = 0; i < calls; i++)
                once(what);
            if (rank == 0)
                printf("%d %.2f\n", what, (now() - begin) / calls);
        }
    }
    MPI_Finalize();
    return 0;
}
