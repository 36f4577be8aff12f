/* How programs end, and what else may happen to them; the first argument says what. tests/life.rs. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void idlewave_mark_begin(const char *) __attribute__((weak));
void idlewave_mark_end(const char *) __attribute__((weak));
void idlewave_mark_point(const char *) __attribute__((weak));

#define W MPI_COMM_WORLD
#define MESSAGES 50
static int rank, size;
static MPI_Request from_other[2];

static void *thread(void *argument) {
    int tag = (int)(long)argument, next = (rank + 1) % size, previous = (rank + size - 1) % size;
    char out[100] = {0}, in[100];
    for (int i = 0; i < MESSAGES; i++)
        MPI_Sendrecv(out, tag, MPI_BYTE, next, tag, in, 100, MPI_BYTE, previous, tag, W, MPI_STATUS_IGNORE);
    return NULL;
}

static void *marker(void *nothing) {
    if (idlewave_mark_point)
        idlewave_mark_point("nowhere");
    return nothing;
}

static void *completer(void *nothing) {
    MPI_Waitall(2, from_other, MPI_STATUSES_IGNORE);
    return nothing;
}

/* MPI calls it inside of MPI_Finalize. */
static int deleted(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)state;
    puts("deleted");
    return MPI_Send(value, 1, MPI_INT, MPI_PROC_NULL, 0, W);
}

int main(int argc, char **argv) {
    const char *what = argv[1];
    int level, value = 0;
    if (!strcmp(what, "nothing"))
        return 0;
    MPI_Init_thread(&argc, &argv, strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    MPI_Barrier(W);
    if (!strcmp(what, "crash")) {
        MPI_Barrier(W);
        raise(SIGKILL);
    } else if (!strcmp(what, "abort")) {
        if (rank == 0)
            MPI_Abort(W, 7);
        /* It returns in MPICH 5: nobody goes on to MPI_Finalize while the launcher ends the job. */
        for (;;)
            pause();
    } else if (!strcmp(what, "exit")) {
        _exit(0);
    } else if (!strcmp(what, "many")) {
        for (int i = 0; i < 1000; i++)
            MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, W);
    } else if (!strcmp(what, "callback")) {
        int key;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &value);
    } else if (!strcmp(what, "shared")) {
        MPI_Request first, second;
        MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, W, &first);
        MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 2, W, &second);
        MPI_Wait(&second, MPI_STATUS_IGNORE);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
        /* The second wait finds the persistent request inactive. */
        MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 3, W, &first);
        MPI_Start(&first);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
        MPI_Request_free(&first);
    } else if (!strcmp(what, "copied")) {
        MPI_Request one, copies[4];
        for (int i = 0; i < 4; i++) {
            MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, i, W, &one);
            copies[i] = one;
        }
        /* The last one is in both: it is waited for where it was started, the others where they were copied to. */
        MPI_Wait(&one, MPI_STATUS_IGNORE);
        MPI_Wait(&copies[0], MPI_STATUS_IGNORE);
        MPI_Waitall(2, copies + 1, MPI_STATUSES_IGNORE);
    } else if (!strcmp(what, "polls")) {
        int flag;
        for (int i = 0; i < 1000; i++)
            MPI_Iprobe(MPI_ANY_SOURCE, 99, W, &flag, MPI_STATUS_IGNORE);
        MPI_Barrier(W);
    } else if (!strcmp(what, "threads") && level == MPI_THREAD_MULTIPLE) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, thread, (void *)(i + 1));
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        /* started here, completed there */
        char out[10] = {0}, in[100];
        MPI_Irecv(in, 100, MPI_BYTE, (rank + size - 1) % size, 9, W, from_other);
        MPI_Isend(out, 9, MPI_BYTE, (rank + 1) % size, 9, W, from_other + 1);
        pthread_create(threads, NULL, completer, NULL);
        pthread_join(threads[0], NULL);
    } else if (!strcmp(what, "refused")) {
        /* No ring can be made while the directory is away. */
        char away[4096];
        const char *rings = getenv("IDLEWAVE_RINGS");
        pthread_t threads[2];
        snprintf(away, sizeof away, "%s.away", rings);
        if (rename(rings, away))
            return 1;
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, marker, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        if (rename(away, rings))
            return 1;
    } else if (!strcmp(what, "marks") && idlewave_mark_begin) {
        idlewave_mark_begin("solve");
        idlewave_mark_point("a name of more than fifty-six bytes, of which the rest is cut off");
        idlewave_mark_begin("inner");
        idlewave_mark_end("inner");
        idlewave_mark_end("solve");
        idlewave_mark_point(NULL);
    } else if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            if (idlewave_mark_point)
                idlewave_mark_point("child");
            _exit(0);
        }
        waitpid(child, NULL, 0);
        MPI_Barrier(W);
    } else if (!strcmp(what, "windows")) {
        MPI_Win window;
        int memory = 0, one = 1;
        MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, W, &window);
        for (int i = 0; i < 3; i++) {
            MPI_Win_fence(0, window);
            if (rank == 0)
                MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        }
        MPI_Win_fence(0, window);
        MPI_Win_free(&window);
    }
    MPI_Finalize();
    return 0;
}
