/* checked PLACE: the ranks of an MPI job send each other messages and check every byte, until the file PLACE.stop exists.
 * Each rank keeps its process number and the rounds done, two words of 64 bits, in PLACE.RANK. */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LONGEST (256 << 10)

static int rank, size;

/* Fills a message of a rank in a round, and returns its length: a few frames mostly, every 100th round one long enough to
 * be announced first. No two are alike, even between jobs. */
static int message(uint64_t job, int from, uint64_t round, unsigned char *data)
{
    uint64_t state = (job * 31 + from) * 0x9e3779b97f4a7c15u + round * 0xbf58476d1ce4e5b9u;
    state ^= state >> 31;
    int length = 16 + (int)(state % (round % 100 == 0 ? LONGEST - 16 : 5000));
    for (int i = 0; i < length; i++) {
        state = state * 0x5851f42d4c957f2du + 1;
        data[i] = state >> 56;
    }
    return length;
}

static void wrong(const char *what, uint64_t round)
{
    fprintf(stderr, "rank %d: %s in round %llu is not what was sent\n", rank, what, (unsigned long long)round);
    MPI_Abort(MPI_COMM_WORLD, 99);
}

int main(int argc, char **argv)
{
    static unsigned char out[LONGEST], in[LONGEST], expected[LONGEST];
    char path[4096];
    uint64_t job = 0, words[2] = {(uint64_t)getpid(), 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (const char *c = argv[1]; *c; c++)
        job = job * 31 + (unsigned char)*c;
    snprintf(path, sizeof path, "%s.%d", argv[1], rank);
    int file = open(path, O_RDWR | O_CREAT, 0644);
    snprintf(path, sizeof path, "%s.stop", argv[1]);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, last = 0;
    for (uint64_t round = 1; !last; round++) {
        int length = message(job, rank, round, out), came, tag = round % 7;
        MPI_Status status;
        if (round % 3) {
            MPI_Request requests[2];
            MPI_Status both[2];
            MPI_Isend(out, length, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, both);
            status = both[1];
        } else
            MPI_Sendrecv(out, length, MPI_BYTE, next, tag, in, LONGEST, MPI_BYTE, previous, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &came);
        int same = came == message(job, previous, round, expected) && status.MPI_SOURCE == previous;
        for (int i = 0; same && i < came; i++)
            same = in[i] == expected[i];
        if (!same)
            wrong("what came", round);
        words[1] = round;
        if (pwrite(file, words, sizeof words, 0) != sizeof words)
            MPI_Abort(MPI_COMM_WORLD, 3);
        if (round % 64 == 0) {
            int stop = rank == 0 && access(path, F_OK) == 0, sum;
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (sum != size * (size - 1) / 2)
                wrong("a sum", round);
            MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
            last = stop;
        }
    }
    MPI_Finalize();
    return 0;
}
