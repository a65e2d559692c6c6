/* Ends its process by SIGKILL at the n-th call that changes a file: LD_PRELOAD=kill_points.so

   KILL_AT=n in the environment, or kill_at(n) at any time, which also begins to count anew; 0 never kills.
   changes() tells how many calls there were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long count;
static atomic_long limit;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("KILL_AT");
    atomic_store(&limit, text ? atol(text) : 0);
}

void kill_at(long number) {
    atomic_store(&count, 0);
    atomic_store(&limit, number);
}

long changes(void) { return atomic_load(&count); }

static void change(void) {
    if (atomic_fetch_add(&count, 1) + 1 == atomic_load(&limit))
        kill(getpid(), SIGKILL);
}

/* Only what goes to files: pipes and sockets are written to as well. */
static void change_of(int fd) {
    struct stat found;
    if (fd > 2 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
        change();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define BEFORE(kind, name, parameters, arguments, note) \
    kind name parameters { note; return NEXT(name) arguments; }

BEFORE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), change_of(fd))
BEFORE(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), change_of(fd))
BEFORE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), change_of(fd))
BEFORE(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), change_of(fd))
BEFORE(int, fsync, (int fd), (fd), change_of(fd))
BEFORE(int, fdatasync, (int fd), (fd), change_of(fd))
BEFORE(int, ftruncate, (int fd, off_t size), (fd, size), change_of(fd))
BEFORE(int, ftruncate64, (int fd, off64_t size), (fd, size), change_of(fd))
BEFORE(int, rename, (const char *from, const char *to), (from, to), change())
BEFORE(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), change())
BEFORE(int, link, (const char *from, const char *to), (from, to), change())
BEFORE(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags), change())
BEFORE(int, unlink, (const char *path), (path), change())
BEFORE(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), change())
BEFORE(int, mkdir, (const char *path, mode_t mode), (path, mode), change())
BEFORE(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), change())

#define OPEN(name, parameters, arguments) \
    int name parameters { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        if (flags & O_CREAT) change(); \
        return NEXT(name) arguments; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
