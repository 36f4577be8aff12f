/* Every collective with counts of which tests/collectives.rs knows the sums; any number of ranks up to 16. */
#include <mpi.h>
#include <string.h>

#define W MPI_COMM_WORLD
#define MOST 16
static char out[1 << 16], in[1 << 16];
static int a[MOST], b[MOST], da[MOST], db[MOST];
static MPI_Datatype ta[MOST], tb[MOST];

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Request q;
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    /* To rank k go 8 * (rank + k + 1) ints in alltoallv and twice that in bytes in alltoallw: the same back. */
    for (int k = 0; k < size; k++) {
        a[k] = b[k] = 8 * (rank + k + 1);
        da[k] = db[k] = 512 * k;
        ta[k] = tb[k] = MPI_INT;
    }
    MPI_Barrier(W);
    MPI_Bcast(out, 10, MPI_INT, 1, W);
    MPI_Gather(out, 3, MPI_INT, in, 3, MPI_INT, 1, W);
    MPI_Gather(rank == 1 ? MPI_IN_PLACE : out, 3, MPI_INT, in, 3, MPI_INT, 1, W);
    MPI_Scatter(out, 4, MPI_INT, in, 4, MPI_INT, 0, W);
    MPI_Scatter(out, 4, MPI_INT, rank == 0 ? MPI_IN_PLACE : in, 4, MPI_INT, 0, W);
    MPI_Allgather(out, 5, MPI_INT, in, 5, MPI_INT, W);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 5, MPI_INT, W);
    MPI_Alltoall(out, 6, MPI_INT, in, 6, MPI_INT, W);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 6, MPI_INT, W);
    MPI_Alltoallv(out, a, da, MPI_INT, in, b, db, MPI_INT, W);
    for (int k = 0; k < size; k++)
        da[k] = db[k] = 2048 * k;
    MPI_Alltoallw(out, a, da, ta, in, b, db, tb, W);
    MPI_Reduce(out, in, 7, MPI_DOUBLE, MPI_SUM, 2 % size, W);
    MPI_Allreduce(out, in, 8, MPI_DOUBLE, MPI_SUM, W);
    MPI_Allreduce(MPI_IN_PLACE, in, 8, MPI_DOUBLE, MPI_SUM, W);
    MPI_Scan(out, in, 9, MPI_INT, MPI_SUM, W);
    MPI_Exscan(out, in, 9, MPI_INT, MPI_SUM, W);
    MPI_Reduce_scatter_block(out, in, 2, MPI_INT, MPI_SUM, W);
    for (int k = 0; k < size; k++) {
        b[k] = k + 1;
        db[k] = k * 64;
    }
    MPI_Reduce_scatter(out, in, b, MPI_INT, MPI_SUM, W);
    /* rank k gives k + 1 ints */
    MPI_Gatherv(out, rank + 1, MPI_INT, in, b, db, MPI_INT, 0, W);
    MPI_Scatterv(out, b, db, MPI_INT, in, rank + 1, MPI_INT, 0, W);
    MPI_Allgatherv(out, rank + 1, MPI_INT, in, b, db, MPI_INT, W);
    /* Non-blocking */
    MPI_Ibarrier(W, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Ibcast(out, 10, MPI_INT, 1, W, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Iallreduce(out, in, 8, MPI_DOUBLE, MPI_SUM, W, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Ialltoall(out, 6, MPI_INT, in, 6, MPI_INT, W, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Ireduce(out, in, 7, MPI_DOUBLE, MPI_SUM, 0, W, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    /* Neighbours on a line with ends, and on a directed ring */
    int dims[1] = {size}, periods[1] = {0}, from = (rank + size - 1) % size, to = (rank + 1) % size;
    MPI_Comm line, ring;
    MPI_Cart_create(W, 1, dims, periods, 0, &line);
    MPI_Neighbor_allgather(out, 3, MPI_INT, in, 3, MPI_INT, line);
    MPI_Neighbor_alltoall(out, 4, MPI_INT, in, 4, MPI_INT, line);
    MPI_Dist_graph_create_adjacent(W, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    MPI_Ineighbor_alltoall(out, 5, MPI_INT, in, 5, MPI_INT, ring, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
    MPI_Allreduce_c(out, in, (MPI_Count)11, MPI_DOUBLE, MPI_SUM, W);
#endif
    MPI_Comm_free(&line);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
