/* allreduce N MICROSECONDS: N times a computation of about that length and an allreduce of a double.
 * Rank 0 prints the seconds that the loop took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* What the compiler does not know, it cannot compute in advance. */
static volatile double sink = 0.5;

static void compute(long steps) {
    double x = sink;
    for (long i = 0; i < steps; i++)
        x = x * 0.999999 + 1e-6;
    sink = x;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long n = argc > 1 ? atol(argv[1]) : 10000;
    double wanted = (argc > 2 ? atof(argv[2]) : 100.0) * 1e-6;
    /* Steps of the computation, from the environment so that all runs do the same work. */
    const char *given = getenv("STEPS");
    long steps = given ? atol(given) : 0;
    if (!steps) {
        double best = 1e9;
        for (int i = 0; i < 50; i++) {
            double begin = MPI_Wtime();
            compute(100000);
            double took = MPI_Wtime() - begin;
            best = took < best ? took : best;
        }
        steps = (long)(wanted / best * 100000.0);
        if (!rank)
            printf("steps %ld\n", steps);
    }
    double mine = rank, sum;
    for (int i = 0; i < 200; i++)
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        compute(steps);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    double end = MPI_Wtime();
    if (!rank)
        printf("seconds %.9f\n", end - begin);
    MPI_Finalize();
    return 0;
}
