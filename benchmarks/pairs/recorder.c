/* Records the file calls of one process: LD_PRELOAD=recorder.so RECORD_ROOT=/folder RECORD_TO=/file program
 *
 * Calls on paths below RECORD_ROOT are kept in memory, with their time by the monotonic clock, and written to RECORD_TO
 * when the process exits: first the events (struct event), then the paths, one per line, and the number of events.
 * One thread is assumed. Times are those of the call itself: keeping the event comes after the second clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, CLOSE, READ, WRITE, SEEK, STAT, SYNC };
enum { MOST_DESCRIPTORS = 4096 };

struct event {
    int32_t call, file;
    int64_t offset, bytes;
    double start, end;
};

static struct event *events;
static size_t count, room;
static char **paths;
static int path_count, path_room;
static int file_of[MOST_DESCRIPTORS];
static int64_t at[MOST_DESCRIPTORS];
static char root[4096];
static double begun;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("RECORD_ROOT");
    snprintf(root, sizeof root, "%s", given ? given : "");
    for (int i = 0; i < MOST_DESCRIPTORS; i++) file_of[i] = -1;
    begun = now();
}

static int number_of(const char *path) {
    if (!root[0] || !path || strncmp(path, root, strlen(root))) return -1;
    for (int i = path_count - 1; i >= 0 && i > path_count - 8; i--)
        if (!strcmp(paths[i], path)) return i;
    if (path_count == path_room) {
        path_room = path_room ? 2 * path_room : 1024;
        paths = realloc(paths, (size_t)path_room * sizeof *paths);
    }
    paths[path_count] = strdup(path);
    return path_count++;
}

static void keep(int call, int file, int64_t offset, int64_t bytes, double start, double end) {
    if (file < 0) return;
    if (count == room) {
        room = room ? 2 * room : 1 << 16;
        events = realloc(events, room * sizeof *events);
    }
    events[count++] = (struct event){call, file, offset, bytes, start - begun, end - begun};
}

static int known(int fd) { return fd >= 0 && fd < MOST_DESCRIPTORS ? file_of[fd] : -1; }

static void opened(int fd, const char *path, int flags, double start, double end) {
    int file = number_of(path);
    if (fd < 0 || fd >= MOST_DESCRIPTORS || file < 0) return;
    struct stat state;
    file_of[fd] = file;
    at[fd] = flags & O_APPEND && fstat(fd, &state) == 0 ? state.st_size : 0;
    keep(OPEN, file, 0, 0, start, end);
}

#define OPENER(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = va_arg(more, mode_t); \
        va_end(more); \
        double start = now(); \
        int fd = real(path, flags, mode); \
        opened(fd, path, flags, start, now()); \
        return fd; \
    }
OPENER(open)
OPENER(open64)

#define OPENER_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = va_arg(more, mode_t); \
        va_end(more); \
        double start = now(); \
        int fd = real(folder, path, flags, mode); \
        opened(fd, path, flags, start, now()); \
        return fd; \
    }
OPENER_AT(openat)
OPENER_AT(openat64)

int close(int fd) {
    REAL(close);
    int file = known(fd);
    double start = now();
    int result = real(fd);
    keep(CLOSE, file, 0, 0, start, now());
    if (file >= 0) file_of[fd] = -1;
    return result;
}

static void moved(int call, int fd, int64_t offset, ssize_t bytes, double start, double end) {
    if (known(fd) < 0 || bytes < 0) return;
    keep(call, known(fd), offset < 0 ? at[fd] : offset, bytes, start, end);
    if (offset < 0) at[fd] += bytes;
}

ssize_t read(int fd, void *data, size_t bytes) {
    REAL(read);
    double start = now();
    ssize_t done = real(fd, data, bytes);
    moved(READ, fd, -1, done, start, now());
    return done;
}
ssize_t write(int fd, const void *data, size_t bytes) {
    REAL(write);
    double start = now();
    ssize_t done = real(fd, data, bytes);
    moved(WRITE, fd, -1, done, start, now());
    return done;
}
#define POSITIONED(name, kind, call, ...) \
    ssize_t name(int fd, kind, __typeof__(0L) offset) { \
        REAL(name); \
        double start = now(); \
        ssize_t done = real(fd, __VA_ARGS__, offset); \
        moved(call, fd, offset, done, start, now()); \
        return done; \
    }
#define COMMA ,
POSITIONED(pread, void *data COMMA size_t bytes, READ, data, bytes)
POSITIONED(pread64, void *data COMMA size_t bytes, READ, data, bytes)
POSITIONED(pwrite, const void *data COMMA size_t bytes, WRITE, data, bytes)
POSITIONED(pwrite64, const void *data COMMA size_t bytes, WRITE, data, bytes)
POSITIONED(preadv, const struct iovec *parts COMMA int n, READ, parts, n)
POSITIONED(preadv64, const struct iovec *parts COMMA int n, READ, parts, n)

#define FLAGGED(name) \
    ssize_t name(int fd, const struct iovec *parts, int n, __typeof__(0L) offset, int flags) { \
        REAL(name); \
        double start = now(); \
        ssize_t done = real(fd, parts, n, offset, flags); \
        moved(READ, fd, offset, done, start, now()); \
        return done; \
    }
FLAGGED(preadv2)
FLAGGED(preadv64v2)

#define SEEKER(name) \
    __typeof__(0L) name(int fd, __typeof__(0L) offset, int whence) { \
        REAL(name); \
        double start = now(); \
        long result = real(fd, offset, whence); \
        if (known(fd) >= 0) { \
            keep(SEEK, known(fd), offset, 0, start, now()); \
            at[fd] = result; \
        } \
        return result; \
    }
SEEKER(lseek)
SEEKER(lseek64)

#define SYNCER(name) \
    int name(int fd) { \
        REAL(name); \
        double start = now(); \
        int result = real(fd); \
        keep(SYNC, known(fd), 0, 0, start, now()); \
        return result; \
    }
SYNCER(fsync)
SYNCER(fdatasync)

#define STATTER(name, kind) \
    int name(const char *path, kind *state) { \
        REAL(name); \
        double start = now(); \
        int result = real(path, state); \
        keep(STAT, number_of(path), 0, 0, start, now()); \
        return result; \
    }
STATTER(stat, struct stat)
STATTER(stat64, struct stat64)
STATTER(lstat, struct stat)
STATTER(lstat64, struct stat64)

__attribute__((destructor)) static void finish(void) {
    const char *to = getenv("RECORD_TO");
    if (!to) return;
    root[0] = 0;
    FILE *file = fopen(to, "w");
    if (!file) return;
    fwrite(events, sizeof *events, count, file);
    for (int i = 0; i < path_count; i++) fprintf(file, "%s\n", paths[i]);
    uint64_t total = count;
    fwrite(&total, sizeof total, 1, file);
    fclose(file);
}
