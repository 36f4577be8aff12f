/* Makes marks until a file has so many bytes: `marks FILE BYTES`. Ends with 7, or with 9 if that takes too long. */
#include "idlewave.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct stat there;
    if (argc != 3)
        return 1;
    for (int round = 0; round < 20000; round++) {
        for (int n = 0; n < 1000; n++)
            idlewave_point("mark");
        usleep(1000);
        if (stat(argv[1], &there) == 0 && there.st_size >= atol(argv[2]))
            return 7;
    }
    return 9;
}
