/* messages ROUNDS: ranks send each other messages of 0 bytes to 2 MB in all ways that MPI has for two sides, and check
 * every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static long bad;

static unsigned char byte(int i, int round, int from)
{
    return (unsigned char)(i * 31 + round + from);
}

/* Around the ring, several at a time, received in the opposite order of tags. */
static void ring(int round)
{
    int length = round % 10 == 0 ? round * 7919 % 2000000 : round * 7919 % 5000;
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    unsigned char *out[3], *in[3];
    MPI_Request requests[6];
    MPI_Status statuses[6];
    for (int k = 0; k < 3; k++) {
        out[k] = malloc(length + 1);
        in[k] = calloc(length + 1, 1);
        for (int i = 0; i < length; i++)
            out[k][i] = byte(i, round + k, rank);
        MPI_Isend(out[k], length, MPI_BYTE, next, k, MPI_COMM_WORLD, &requests[k]);
    }
    for (int k = 2; k >= 0; k--)
        MPI_Irecv(in[k], length, MPI_BYTE, previous, k, MPI_COMM_WORLD, &requests[3 + k]);
    MPI_Waitall(6, requests, statuses);
    for (int k = 0; k < 3; k++) {
        int wrong = in[k][length] != 0;
        for (int i = 0; i < length; i++)
            wrong |= in[k][i] != byte(i, round + k, previous);
        bad += wrong;
        free(out[k]);
        free(in[k]);
    }
}

/* From any source, found by a probe; synchronous; found and claimed. */
static void probes(void)
{
    int values[64], count;
    MPI_Status status;
    if (rank > 0) {
        for (int i = 0; i < 64; i++)
            values[i] = rank;
        MPI_Ssend(values, rank % 64, MPI_INT, 0, 99, MPI_COMM_WORLD);
        MPI_Send(values, 1, MPI_INT, 0, 98, MPI_COMM_WORLD);
        return;
    }
    for (int i = 1; i < size; i++) {
        MPI_Message message;
        MPI_Probe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Recv(values, count, MPI_INT, status.MPI_SOURCE, 99, MPI_COMM_WORLD, &status);
        bad += count != status.MPI_SOURCE % 64 || (count > 0 && values[count - 1] != status.MPI_SOURCE);
        MPI_Mprobe(MPI_ANY_SOURCE, 98, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(values, 1, MPI_INT, &message, &status);
        bad += values[0] != status.MPI_SOURCE;
    }
}

static void cancel(void)
{
    int value, cancelled;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&value, 1, MPI_INT, (rank + 1) % size, 12345, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    bad += !cancelled;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20, sum;
    long all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < rounds; round++) {
        ring(round);
        probes();
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        bad += sum != size * (size - 1) / 2;
    }
    cancel();
    MPI_Allreduce(&bad, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        printf("%d ranks: all messages are whole\n", size);
    else if (rank == 0)
        printf("%d ranks: %ld messages are not whole\n", size, all);
    MPI_Finalize();
    return all != 0;
}
