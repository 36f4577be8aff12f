/* System calls whose numbers are known.
 *
 * syscalls FILE: every rank joins a barrier, waits until FILE exists, and then calls getppid 1,000 times and sleeps 50 times for 1 ms. */
#include <mpi.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; argc > 1 && access(argv[1], F_OK) && i < 600000; i++)
        usleep(1000);
    for (int i = 0; i < 1000; i++)
        syscall(SYS_getppid);
    for (int i = 0; i < 50; i++) {
        struct timespec millisecond = {0, 1000000};
        syscall(SYS_nanosleep, &millisecond, NULL);
    }
    return MPI_Finalize();
}
