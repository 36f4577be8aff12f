/* Every way of sending and receiving, each under its own tag; four ranks. tests/point_to_point.rs has the sums. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define W MPI_COMM_WORLD
static char out[65536], in[65536];
static int rank, size;

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, flag, index, done;
    MPI_Request q[8];
    MPI_Status s, statuses[8];
    int indices[8];
    void *attached = malloc(1 << 16);

    /* 1: a ring of blocking calls, 400 bytes each */
    if (rank % 2 == 0) {
        MPI_Send(out, 100, MPI_INT, next, 1, W);
        MPI_Recv(in, 100, MPI_INT, previous, 1, W, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, 100, MPI_INT, previous, 1, W, &s);
        MPI_Send(out, 100, MPI_INT, next, 1, W);
    }
    /* 2: from any source, shorter than posted: 10 + rank bytes */
    if (rank != 0)
        MPI_Send(out, 10 + rank, MPI_BYTE, 0, 2, W);
    else
        for (int i = 1; i < size; i++)
            MPI_Recv(in, 1000, MPI_BYTE, MPI_ANY_SOURCE, 2, W, MPI_STATUS_IGNORE);
    MPI_Barrier(W);
    /* 3: with any tag */
    MPI_Irecv(in, 1000, MPI_BYTE, previous, MPI_ANY_TAG, W, q);
    MPI_Send(out, 33, MPI_BYTE, next, 3, W);
    MPI_Wait(q, MPI_STATUS_IGNORE);
    /* 4: to itself */
    MPI_Irecv(in, 8, MPI_BYTE, rank, 4, W, q);
    MPI_Send(out, 8, MPI_BYTE, rank, 4, W);
    MPI_Wait(q, &s);
    /* 5: to nobody */
    MPI_Send(out, 99, MPI_BYTE, MPI_PROC_NULL, 5, W);
    MPI_Recv(in, 99, MPI_BYTE, MPI_PROC_NULL, 5, W, MPI_STATUS_IGNORE);
    MPI_Isend(out, 99, MPI_BYTE, MPI_PROC_NULL, 5, W, q);
    MPI_Irecv(in, 99, MPI_BYTE, MPI_PROC_NULL, 5, W, q + 1);
    MPI_Waitall(2, q, statuses);
    MPI_Sendrecv(out, 99, MPI_BYTE, MPI_PROC_NULL, 5, in, 99, MPI_BYTE, MPI_PROC_NULL, 5, W, &s);
    /* 6: send and receive at once, 24 bytes to the next */
    MPI_Sendrecv(out, 3, MPI_DOUBLE, next, 6, in, 100, MPI_DOUBLE, previous, 6, W, MPI_STATUS_IGNORE);
    /* 7: in place, 20 bytes */
    MPI_Sendrecv_replace(out, 5, MPI_INT, next, 7, previous, 7, W, MPI_STATUS_IGNORE);
    /* 8: persistent, five times 16 bytes; the third time with MPI_Startall */
    MPI_Send_init(out, 16, MPI_BYTE, next, 8, W, q);
    MPI_Recv_init(in, 64, MPI_BYTE, previous, 8, W, q + 1);
    for (int i = 0; i < 5; i++) {
        if (i == 2)
            MPI_Startall(2, q);
        else {
            MPI_Start(q);
            MPI_Start(q + 1);
        }
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    }
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE); /* inactive: nothing */
    MPI_Request_free(q);
    MPI_Request_free(q + 1);
    /* 9: three messages of 100, 200 and 300 bytes, all at once */
    for (int i = 0; i < 3; i++)
        MPI_Irecv(in + 1000 * i, 1000, MPI_BYTE, previous, 9, W, q + i);
    for (int i = 0; i < 3; i++)
        MPI_Isend(out, 100 * (i + 1), MPI_BYTE, next, 9, W, q + 3 + i);
    MPI_Waitall(6, q, MPI_STATUSES_IGNORE);
    /* 10: one by one, with MPI_REQUEST_NULL among them */
    for (int i = 0; i < 4; i++)
        q[i] = MPI_REQUEST_NULL;
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 10, W, q + 1);
    MPI_Isend(out, 40, MPI_BYTE, next, 10, W, q + 3);
    for (;;) {
        MPI_Waitany(4, q, &index, MPI_STATUS_IGNORE);
        if (index == MPI_UNDEFINED)
            break;
    }
    /* 11: MPI_Waitsome; 12: MPI_Testsome; 13: MPI_Test; 14: MPI_Testany; 15: MPI_Testall */
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 11, W, q);
    MPI_Isend(out, 50, MPI_BYTE, next, 11, W, q + 1);
    do
        MPI_Waitsome(2, q, &done, indices, MPI_STATUSES_IGNORE);
    while (done != MPI_UNDEFINED);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 12, W, q);
    MPI_Isend(out, 60, MPI_BYTE, next, 12, W, q + 1);
    do
        MPI_Testsome(2, q, &done, indices, statuses);
    while (done != MPI_UNDEFINED);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 13, W, q);
    MPI_Isend(out, 70, MPI_BYTE, next, 13, W, q + 1);
    for (int i = 0; i < 2; i++)
        do
            MPI_Test(q + i, &flag, MPI_STATUS_IGNORE);
        while (!flag);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 14, W, q);
    MPI_Isend(out, 80, MPI_BYTE, next, 14, W, q + 1);
    do
        MPI_Testany(2, q, &index, &flag, MPI_STATUS_IGNORE);
    while (!flag || index != MPI_UNDEFINED);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 15, W, q);
    MPI_Isend(out, 90, MPI_BYTE, next, 15, W, q + 1);
    do
        MPI_Testall(2, q, &flag, MPI_STATUSES_IGNORE);
    while (!flag);
    /* 16: synchronous, 17: buffered, 18: ready; blocking and not */
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 16, W, q);
    MPI_Ssend(out, 5, MPI_BYTE, next, 16, W);
    MPI_Wait(q, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 16, W, q);
    MPI_Issend(out, 6, MPI_BYTE, next, 16, W, q + 1);
    MPI_Waitall(2, q, statuses);
    MPI_Buffer_attach(attached, 1 << 16);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 17, W, q);
    MPI_Bsend(out, 7, MPI_BYTE, next, 17, W);
    MPI_Wait(q, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 17, W, q);
    MPI_Ibsend(out, 8, MPI_BYTE, next, 17, W, q + 1);
    MPI_Waitall(2, q, statuses);
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 18, W, q);
    MPI_Irecv(in + 1000, 1000, MPI_BYTE, previous, 18, W, q + 1);
    MPI_Barrier(W);
    MPI_Rsend(out, 9, MPI_BYTE, next, 18, W);
    MPI_Irsend(out, 10, MPI_BYTE, next, 18, W, q + 2);
    MPI_Waitall(3, q, statuses);
    /* 19: probed, 20: probed without waiting, 21: matched, 22: matched without waiting */
    MPI_Isend(out, 11, MPI_BYTE, next, 19, W, q);
    MPI_Probe(previous, 19, W, &s);
    MPI_Recv(in, 1000, MPI_BYTE, previous, 19, W, MPI_STATUS_IGNORE);
    MPI_Wait(q, &s);
    MPI_Isend(out, 12, MPI_BYTE, next, 20, W, q);
    do
        MPI_Iprobe(previous, 20, W, &flag, MPI_STATUS_IGNORE);
    while (!flag);
    MPI_Recv(in, 1000, MPI_BYTE, previous, 20, W, MPI_STATUS_IGNORE);
    MPI_Wait(q, &s);
    MPI_Message message;
    MPI_Isend(out, 13, MPI_BYTE, next, 21, W, q);
    MPI_Mprobe(MPI_ANY_SOURCE, 21, W, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, 1000, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    MPI_Wait(q, &s);
    MPI_Isend(out, 14, MPI_BYTE, next, 22, W, q);
    do
        MPI_Improbe(previous, 22, W, &flag, &message, MPI_STATUS_IGNORE);
    while (!flag);
    MPI_Imrecv(in, 1000, MPI_BYTE, &message, q + 1);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    /* 23: cancelled */
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 23, W, q);
    MPI_Cancel(q);
    MPI_Wait(q, MPI_STATUS_IGNORE);
    /* 24: given up by the sender */
    MPI_Irecv(in, 1000, MPI_BYTE, previous, 24, W, q);
    MPI_Isend(out, 15, MPI_BYTE, next, 24, W, q + 1);
    MPI_Request_free(q + 1);
    MPI_Wait(q, MPI_STATUS_IGNORE);
    /* 25: a type with gaps: 3 blocks of 2 ints; 26: nothing; 27: a large one */
    MPI_Datatype vector;
    MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    MPI_Sendrecv(out, 2, vector, next, 25, in, 12, MPI_INT, previous, 25, W, MPI_STATUS_IGNORE);
    MPI_Type_free(&vector);
    MPI_Sendrecv(NULL, 0, MPI_INT, next, 26, NULL, 0, MPI_INT, previous, 26, W, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 60000, MPI_CHAR, next, 27, in, 65536, MPI_CHAR, previous, 27, W, MPI_STATUS_IGNORE);
    /* 28: twenty small ones that a library may call complete at once, in the wrong order */
    MPI_Request many[20];
    for (int i = 0; i < 20; i++)
        MPI_Isend(out, i + 1, MPI_BYTE, next, 28, W, many + i);
    for (int i = 0; i < 20; i++)
        MPI_Recv(in, 1000, MPI_BYTE, previous, 28, W, MPI_STATUS_IGNORE);
    for (int i = 19; i >= 0; i--)
        MPI_Wait(many + i, MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
    /* 29: functions of MPI 4 with large counts */
    MPI_Isend_c(out, (MPI_Count)16, MPI_BYTE, next, 29, W, q);
    MPI_Recv_c(in, (MPI_Count)1000, MPI_BYTE, previous, 29, W, MPI_STATUS_IGNORE);
    MPI_Wait(q, MPI_STATUS_IGNORE);
#endif
    MPI_Barrier(W);
    int size_of_buffer;
    MPI_Buffer_detach(&attached, &size_of_buffer);
    MPI_Finalize();
    return 0;
}
