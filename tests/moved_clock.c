/* The wall clock, moved by as many seconds as the file MOVED_CLOCK holds (a 64-bit integer) at this moment:
   LD_PRELOAD=moved_clock.so. Monotonic clocks stay, as on a machine whose clock is set.

   (libfaketime makes Python's time.sleep fail: it sleeps until a moment of the monotonic clock.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MOVED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED)
        offset = found;
    if (fd >= 0)
        close(fd);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t clock, struct timespec *found) {
    int result = NEXT(clock_gettime)(clock, found);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        found->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    int result = NEXT(gettimeofday)(found, zone);
    if (result == 0 && offset)
        found->tv_sec += *offset;
    return result;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}
