/* Two ranks, 25 steps of about 2 ms, on rank 1 a quarter longer. In each, both send 1600 bytes to each other and sum a double, over
 * a communicator of the solver; every fifth step they meet in a barrier, and rank 0 broadcasts 800 bytes. halo.prv is a recording:
 *   sudo idlewave record -o halo -- mpirun -n 2 ./halo
 *   idlewave export halo --to paraver -o halo.prv
 * of which only the program's own threads were kept. */
#include <mpi.h>

static volatile double sink;

static void compute(double seconds) {
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
        for (int i = 0; i < 1000; i++)
            sink += i;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm solver;
    MPI_Comm_dup(MPI_COMM_WORLD, &solver);
    static double out[200], in[200], table[100];
    for (int step = 0; step < 25; step++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        double mine = rank, sum;
        compute(rank == 1 ? 0.0025 : 0.002);
        MPI_Irecv(in, 200, MPI_DOUBLE, 1 - rank, 1, solver, &requests[0]);
        MPI_Isend(out, 200, MPI_DOUBLE, 1 - rank, 1, solver, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, solver);
        if (step % 5 == 4) {
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Bcast(table, 100, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Comm_free(&solver);
    MPI_Finalize();
    return 0;
}
