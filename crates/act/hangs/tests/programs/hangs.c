/* Programs that hang, and programs that only look as if they did. Arguments: which, and for some how long, seconds. Each prints "begin <ns>" (CLOCK_MONOTONIC) when the last rank is about to
   enter the hang. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <signal.h>
#include <unistd.h>

#define W MPI_COMM_WORLD
#define LARGE (16 << 20)
static int rank, size;

static void about(void) {
    struct timespec t;
    MPI_Barrier(W);
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (rank == 0) {
        printf("begin %lld\n", 1000000000LL * t.tv_sec + t.tv_nsec);
        fflush(stdout);
    }
}
static int is(const char *a, const char *b) { return !strcmp(a, b); }

int main(int argc, char **argv) {
    const char *what = argv[1];
    int provided, flag = 0, x = 0, y = 0, next, before;
    char *large = calloc(LARGE, 2);
    MPI_Request q[4];
    MPI_Comm other;
    MPI_Message m;
    MPI_Init_thread(&argc, &argv, is(what, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    /* Some messages before, so that counters are not zero. */
    for (int i = 0; i < 5; i++)
        MPI_Sendrecv(&x, 1, MPI_INT, next, i % 2, &y, 1, MPI_INT, before, i % 2, W, MPI_STATUS_IGNORE);
    /* A receive that is over is not posted any more. */
    MPI_Irecv(&y, 1, MPI_INT, before, 3, W, q);
    MPI_Send(&x, 1, MPI_INT, next, 3, W);
    MPI_Wait(q, MPI_STATUS_IGNORE);
    /* What is received in other ways counts as well. */
    MPI_Send(&x, 1, MPI_INT, next, 3, W);
    MPI_Recv(&y, 1, MPI_INT, before, 3, W, MPI_STATUS_IGNORE);
    MPI_Send(&x, 1, MPI_INT, next, 3, W);
    MPI_Recv(&y, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, W, MPI_STATUS_IGNORE);
    MPI_Send(&x, 1, MPI_INT, next, 3, W);
    MPI_Mprobe(before, 3, W, &m, MPI_STATUS_IGNORE);
    MPI_Mrecv(&y, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
    if (!is(what, "clean"))
        about();
    if (is(what, "receive") || is(what, "threads")) {
        MPI_Recv(&x, 1, MPI_INT, before, 7, W, MPI_STATUS_IGNORE);
    } else if (is(what, "mismatch")) {
        if (rank == 0)
            MPI_Recv(&x, 1, MPI_INT, 1, 7, W, MPI_STATUS_IGNORE);
        else
            MPI_Barrier(W);
    } else if (is(what, "collectives")) {
        /* Others may pass it: the root of a broadcast does not wait. */
        if (rank == 0)
            MPI_Barrier(W);
        else
            MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, W);
    } else if (is(what, "bcast")) {
        if (rank == 0)
            MPI_Barrier(W);
        else
            MPI_Bcast(&x, 1, MPI_INT, 0, W);
    } else if (is(what, "rendezvous")) {
        MPI_Send(large, LARGE, MPI_CHAR, next, 3, W);
        MPI_Recv(large, LARGE, MPI_CHAR, before, 3, W, MPI_STATUS_IGNORE);
    } else if (is(what, "small-rendezvous")) {
        MPI_Send(large, LARGE / 64, MPI_CHAR, next, 3, W);
        MPI_Recv(large, LARGE / 64, MPI_CHAR, before, 3, W, MPI_STATUS_IGNORE);
    } else if (is(what, "neighbours")) {
        MPI_Send(large, LARGE / 64, MPI_CHAR, (rank + 2) % size, 3, W);
        MPI_Recv(large, LARGE / 64, MPI_CHAR, (rank + size - 2) % size, 3, W, MPI_STATUS_IGNORE);
    } else if (is(what, "late")) {
        /* Not before the file argv[2] is there. */
        while (access(argv[2], F_OK))
            usleep(10000);
        MPI_Recv(&x, 1, MPI_INT, before, 7, W, MPI_STATUS_IGNORE);
    } else if (is(what, "crash")) {
        if (rank == 1)
            raise(SIGKILL);
        MPI_Recv(&x, 1, MPI_INT, 1, 7, W, MPI_STATUS_IGNORE);
    } else if (is(what, "synchronous")) {
        MPI_Ssend(&x, 1, MPI_INT, next, 3, W);
        MPI_Recv(&x, 1, MPI_INT, before, 3, W, MPI_STATUS_IGNORE);
    } else if (is(what, "any-source")) {
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, W, MPI_STATUS_IGNORE);
    } else if (is(what, "wrong-tag")) {
        MPI_Send(&x, 1, MPI_INT, next, 4, W);
        MPI_Recv(&x, 1, MPI_INT, before, 5, W, MPI_STATUS_IGNORE);
    } else if (is(what, "waitall")) {
        MPI_Irecv(&x, 1, MPI_INT, before, 4, W, q);
        MPI_Irecv(&y, 1, MPI_INT, next, 5, W, q + 1);
        if (rank > 0)
            MPI_Isend(&rank, 1, MPI_INT, next, 4, W, q + 2);
        else
            q[2] = MPI_REQUEST_NULL;
        MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
    } else if (is(what, "waitany")) {
        int z;
        MPI_Irecv(&x, 1, MPI_INT, before, 4, W, q);
        MPI_Irecv(&y, 1, MPI_INT, next, 5, W, q + 1);
        MPI_Waitany(2, q, &z, MPI_STATUS_IGNORE);
    } else if (is(what, "persistent")) {
        MPI_Recv_init(&x, 1, MPI_INT, before, 4, W, q);
        MPI_Send_init(&y, 1, MPI_INT, next, 4, W, q + 1);
        MPI_Startall(2, q);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        MPI_Start(q);
        MPI_Wait(q, MPI_STATUS_IGNORE);
    } else if (is(what, "ibarrier")) {
        if (rank > 0) {
            MPI_Ibarrier(W, q);
            MPI_Wait(q, MPI_STATUS_IGNORE);
        } else
            MPI_Recv(&x, 1, MPI_INT, 1, 7, W, MPI_STATUS_IGNORE);
    } else if (is(what, "split")) {
        MPI_Comm_split(W, rank % 2, rank, &other);
        if (rank == 0) {
            /* Its partner in `other` waits for it there, the odd ranks for it in the world. */
            MPI_Recv(&x, 1, MPI_INT, 1, 7, W, MPI_STATUS_IGNORE);
        } else if (rank % 2) {
            MPI_Barrier(W);
        } else
            MPI_Barrier(other);
    } else if (is(what, "communicators")) {
        for (int i = 0; i < 4; i++) {
            MPI_Comm_dup(W, &other);
            MPI_Sendrecv(&x, 1, MPI_INT, next, 2, &y, 1, MPI_INT, before, 2, other, MPI_STATUS_IGNORE);
            if (i < 3)
                MPI_Comm_free(&other);
        }
        MPI_Recv(&x, 1, MPI_INT, before, 7, other, MPI_STATUS_IGNORE);
    } else if (is(what, "probe")) {
        MPI_Status s;
        MPI_Probe(before, 9, W, &s);
    } else if (is(what, "finalised")) {
        if (rank == 0)
            MPI_Recv(&x, 1, MPI_INT, 1, 7, W, MPI_STATUS_IGNORE);
    } else if (is(what, "test")) {
        MPI_Irecv(&x, 1, MPI_INT, before, 4, W, q);
        while (!flag)
            MPI_Test(q, &flag, MPI_STATUS_IGNORE);
    } else if (is(what, "two-tests")) {
        /* Two things are polled in turn, and a clock ends it. */
        double begin = MPI_Wtime();
        MPI_Irecv(&x, 1, MPI_INT, before, 4, W, q);
        MPI_Irecv(&y, 1, MPI_INT, before, 5, W, q + 1);
        while (MPI_Wtime() < begin + 1) {
            MPI_Test(q, &flag, MPI_STATUS_IGNORE);
            MPI_Test(q + 1, &flag, MPI_STATUS_IGNORE);
        }
        MPI_Send(&rank, 1, MPI_INT, next, 4, W);
        MPI_Send(&rank, 1, MPI_INT, next, 5, W);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    } else if (is(what, "file")) {
        /* Rank 0 polls with argv[2] for a message of rank 1, and for the file argv[3]: when that is there, it sends what rank 1 waits for before it sends. */
        const char *how = argv[2];
        int index, indices[1], sent = 0;
        if (rank == 1) {
            MPI_Recv(&y, 1, MPI_INT, 0, 8, W, MPI_STATUS_IGNORE);
            MPI_Send(&x, 1, MPI_INT, 0, 4, W);
        } else if (rank == 0) {
            if (!strstr(how, "probe"))
                MPI_Irecv(&x, 1, MPI_INT, 1, 4, W, q);
            while (!flag) {
                if (is(how, "Iprobe"))
                    MPI_Iprobe(1, 4, W, &flag, MPI_STATUS_IGNORE);
                else if (is(how, "Improbe"))
                    MPI_Improbe(1, 4, W, &flag, &m, MPI_STATUS_IGNORE);
                else if (is(how, "Test"))
                    MPI_Test(q, &flag, MPI_STATUS_IGNORE);
                else if (is(how, "Testany"))
                    MPI_Testany(1, q, &index, &flag, MPI_STATUS_IGNORE);
                else if (is(how, "Testsome"))
                    MPI_Testsome(1, q, &flag, indices, MPI_STATUSES_IGNORE);
                else
                    MPI_Testall(1, q, &flag, MPI_STATUSES_IGNORE);
                if (!sent && access(argv[3], F_OK) == 0) {
                    MPI_Send(&x, 1, MPI_INT, 1, 8, W);
                    sent = 1;
                }
            }
            if (is(how, "Iprobe"))
                MPI_Recv(&x, 1, MPI_INT, 1, 4, W, MPI_STATUS_IGNORE);
            else if (is(how, "Improbe"))
                MPI_Mrecv(&x, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
        }
    } else if (is(what, "slow")) {
        if (rank == 0)
            sleep(1);
        MPI_Sendrecv(&x, 1, MPI_INT, next, 6, &y, 1, MPI_INT, before, 6, W, MPI_STATUS_IGNORE);
        MPI_Barrier(W);
    } else if (is(what, "eager")) {
        /* Rank 1 waits for a slow one and has a send beside it that was copied long ago; rank 0 waits for what rank 1 does then. */
        if (rank == 1) {
            MPI_Isend(&x, 1, MPI_INT, 0, 1, W, q);
            MPI_Irecv(&y, 1, MPI_INT, 2, 2, W, q + 1);
            MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
            MPI_Send(&x, 1, MPI_INT, 0, 3, W);
        } else if (rank == 0) {
            MPI_Recv(&x, 1, MPI_INT, 1, 3, W, MPI_STATUS_IGNORE);
            MPI_Recv(&x, 1, MPI_INT, 1, 1, W, MPI_STATUS_IGNORE);
        } else if (rank == 2) {
            sleep(1);
            MPI_Send(&x, 1, MPI_INT, 1, 2, W);
        }
    } else if (is(what, "clean")) {
        for (int i = 0; i < 2000; i++)
            MPI_Sendrecv(&x, 1, MPI_INT, next, i % 7, &y, 1, MPI_INT, before, i % 7, W, MPI_STATUS_IGNORE);
        MPI_Barrier(W);
    } else if (is(what, "mixed")) {
        /* Everything that is followed, for some seconds. */
        double begin = MPI_Wtime();
        int go = 1, all[64];
        MPI_Comm_dup(W, &other);
        for (int i = 0; go; i++) {
            MPI_Irecv(&x, 1, MPI_INT, before, 1, other, q);
            MPI_Isend(&rank, 1, MPI_INT, next, 1, other, q + 1);
            MPI_Irecv(large, LARGE, MPI_CHAR, MPI_ANY_SOURCE, 2, W, q + 2);
            if (i % 16 == 0)
                MPI_Isend(large + LARGE, 1 << 20, MPI_CHAR, next, 2, W, q + 3);
            else
                MPI_Isend(large + LARGE, 100, MPI_CHAR, next, 2, W, q + 3);
            if (i % 3 == 0) {
                int index;
                for (int k = 0; k < 4; k++)
                    MPI_Waitany(4, q, &index, MPI_STATUS_IGNORE);
            } else if (i % 3 == 1) {
                for (flag = 0; !flag;)
                    MPI_Testall(4, q, &flag, MPI_STATUSES_IGNORE);
            } else
                MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
            if (rank % 2) {
                MPI_Send(&x, 1, MPI_INT, before, 10 + i % 9, W);
                MPI_Recv(&y, 1, MPI_INT, before, MPI_ANY_TAG, W, MPI_STATUS_IGNORE);
            } else if (next % 2) {
                MPI_Status s;
                for (flag = 0; !flag;)
                    MPI_Iprobe(next, MPI_ANY_TAG, W, &flag, &s);
                MPI_Recv(&y, 1, MPI_INT, next, s.MPI_TAG, W, MPI_STATUS_IGNORE);
                MPI_Ssend(&x, 1, MPI_INT, next, 10 + i % 5, W);
            }
            MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, 0, other);
            MPI_Bcast(all, size, MPI_INT, size - 1, W);
            MPI_Ibarrier(other, q);
            MPI_Wait(q, MPI_STATUS_IGNORE);
            x = rank == 0 && MPI_Wtime() < begin + atof(argv[2]);
            MPI_Allreduce(&x, &go, 1, MPI_INT, MPI_MAX, W);
        }
        MPI_Comm_free(&other);
    } else if (is(what, "pingpong")) {
        double begin = MPI_Wtime();
        for (int go = 1; go;) {
            if (rank == 0) {
                go = MPI_Wtime() < begin + atof(argv[2]);
                MPI_Send(&go, 1, MPI_INT, 1, 0, W);
                MPI_Recv(&x, 1, MPI_INT, 1, 0, W, MPI_STATUS_IGNORE);
            } else if (rank == 1) {
                MPI_Recv(&go, 1, MPI_INT, 0, 0, W, MPI_STATUS_IGNORE);
                MPI_Send(&go, 1, MPI_INT, 0, 0, W);
            } else
                go = 0;
        }
    } else if (is(what, "phases")) {
        /* Works for half a second, and sleeps for two, until the file argv[2] is there. */
        for (int end = 0; !end;) {
            double begin = MPI_Wtime();
            for (int go = 1; go;) {
                x = MPI_Wtime() < begin + 0.5;
                MPI_Allreduce(&x, &go, 1, MPI_INT, MPI_MAX, W);
            }
            sleep(2);
            x = access(argv[2], F_OK) == 0;
            MPI_Allreduce(&x, &end, 1, MPI_INT, MPI_MAX, W);
        }
    } else
        return 2;
    MPI_Finalize();
    return 0;
}
