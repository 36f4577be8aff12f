/* Communicators of every kind, and a message in each; four ranks. tests/communicators.rs has who meets whom. */
#include <mpi.h>
#include <stdlib.h>

#define W MPI_COMM_WORLD
static int rank, size;

/* n bytes to and from the other one of two */
static void pair(MPI_Comm comm, int n, int tag) {
    char out[1000] = {0}, in[1000];
    int me;
    MPI_Comm_rank(comm, &me);
    MPI_Sendrecv(out, n, MPI_BYTE, 1 - me, tag, in, 1000, MPI_BYTE, 1 - me, tag, comm, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    MPI_Comm dup, half, again, pairs, later, inter, merged, none, reversed;
    MPI_Group world, two;
    MPI_Request q;
    double x = 1, y;
    MPI_Comm_dup(W, &dup);
    MPI_Barrier(dup);
    /* even and odd; twice: the same members, but not the same communicator */
    MPI_Comm_split(W, rank % 2, rank, &half);
    pair(half, 10, 1);
    MPI_Comm_split(W, rank % 2, rank, &again);
    pair(again, 11, 2);
    /* in the reverse order: rank 0 there is 3 here */
    MPI_Comm_split(W, 0, -rank, &reversed);
    MPI_Bcast(&x, 1, MPI_DOUBLE, 0, reversed);
    /* {0, 1} by the two of them alone, the others make more of another kind meanwhile */
    MPI_Comm_group(W, &world);
    int first[2] = {rank < 2 ? 0 : 2, rank < 2 ? 1 : 3};
    MPI_Group_incl(world, 2, first, &two);
    for (int i = 0; i < (rank < 2 ? 1 : 3); i++) {
        MPI_Comm_create_group(W, two, 7, &pairs);
        if (i > 0)
            MPI_Comm_free(&pairs);
    }
    if (rank < 2)
        pair(pairs, 12, 3);
    MPI_Comm_split(W, rank < 2 ? 0 : MPI_UNDEFINED, rank, &none);
    /* without waiting */
    MPI_Comm_idup(half, &later, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    pair(later, 13, 4);
    /* even against odd: rank k here meets rank k there */
    MPI_Intercomm_create(half, 0, W, rank % 2 == 0 ? 1 : 0, 5, &inter);
    char out[100] = {0}, in[100];
    int me;
    MPI_Comm_rank(inter, &me);
    MPI_Sendrecv(out, 14, MPI_BYTE, me, 5, in, 100, MPI_BYTE, me, 5, inter, MPI_STATUS_IGNORE);
    /* from rank 0 of the even ones to all of the odd ones */
    MPI_Bcast(&x, 1, MPI_DOUBLE, rank % 2 == 0 ? (me == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, inter);
    MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, inter);
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, merged);
    /* made and freed: handles come again, numbers do not */
    for (int i = 0; i < 20; i++) {
        MPI_Comm_dup(half, &none);
        MPI_Barrier(none);
        MPI_Comm_free(&none);
    }
    /* one against three */
    MPI_Comm part, uneven;
    int counts[3] = {rank == 0 ? 6 : 1, 2, 3}, numbers[16] = {0}, sums[16];
    MPI_Comm_split(W, rank == 0, rank, &part);
    MPI_Intercomm_create(part, 0, W, rank == 0 ? 1 : 0, 6, &uneven);
    MPI_Reduce_scatter(numbers, sums, counts, MPI_INT, MPI_SUM, uneven);
    MPI_Reduce_scatter_block(numbers, sums, rank == 0 ? 6 : 2, MPI_INT, MPI_SUM, uneven);
    MPI_Allgather(numbers, 2, MPI_INT, sums, 2, MPI_INT, uneven);
    MPI_Gather(numbers, 3, MPI_INT, sums, 3, MPI_INT, rank == 0 ? MPI_ROOT : 0, uneven);
    MPI_Barrier(MPI_COMM_SELF);
    MPI_Finalize();
    return 0;
}
