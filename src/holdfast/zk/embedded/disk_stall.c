/* Preloaded into a ZooKeeper server: while the file named by HOLDFAST_DISK_STALL exists, nothing reaches the disk. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void) {
    const char *stall = getenv("HOLDFAST_DISK_STALL");
    const struct timespec moment = {0, 5 * 1000 * 1000};
    while (stall && access(stall, F_OK) == 0)
        nanosleep(&moment, NULL);
}

int fsync(int fd) { wait_for_disk(); return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { wait_for_disk(); return (int)syscall(SYS_fdatasync, fd); }
