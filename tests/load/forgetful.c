/* Notes what has reached the disk: after each sync of a file a line with its inode and the size that
   it had before the sync began. Preloaded into a collector, it tells what a loss of power leaves. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int noted(int fd, const char *name)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    int is_known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    int outcome = real(fd);
    const char *notes = getenv("SYNCED");
    if (outcome == 0 && is_known && notes) {
        char line[64];
        int length = snprintf(line, sizeof line, "%llu %lld\n",
                              (unsigned long long)before.st_ino, (long long)before.st_size);
        int out = open(notes, O_WRONLY | O_APPEND | O_CREAT, 0600);
        if (out < 0 || write(out, line, length) != length)
            abort();
        close(out);
    }
    return outcome;
}

int fdatasync(int fd) { return noted(fd, "fdatasync"); }
int fsync(int fd) { return noted(fd, "fsync"); }
