/* Preloaded into a ZooKeeper server: fsync and fdatasync block while the file named by HOLDFAST_DISK_STALL exists. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void) {
    const char *stall = getenv("HOLDFAST_DISK_STALL");
    const struct timespec poll_interval = {0, 5 * 1000 * 1000};
    while (stall && access(stall, F_OK) == 0)
        nanosleep(&poll_interval, NULL);
}

int fsync(int fd) { wait_for_disk(); return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { wait_for_disk(); return (int)syscall(SYS_fdatasync, fd); }
