/* A made-up tree whose metadata operations each take a given time, as those of a parallel file system do.
 *
 *     cc -O2 -o slow_metadata slow_metadata.c; ./slow_metadata MOUNTPOINT DIRECTORIES FILES DELAY_US
 *
 * It speaks the kernel's FUSE protocol itself (linux/fuse.h): one thread that only holds answers back until they are
 * due, so that any number of callers wait side by side. Needs root. Ends when unmounted and prints how many operations
 * were delayed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 1 << 16, PAGE = 4096 };

struct answer {
    long long due_ns;
    uint32_t length;
    char bytes[sizeof(struct fuse_out_header) + PAGE];
};

static long directories, files, delayed;
static long long delay_ns;
static int device;
static struct answer *waiting;
static unsigned first, last; /* a ring: all wait equally long, so the oldest is due first */

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The root is 1, its directories follow, then the files, directory by directory. */
static int is_directory(uint64_t node) { return node <= 1 + (uint64_t)directories; }

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr a = {.ino = node, .uid = 1000, .gid = 1000, .blksize = 4096, .nlink = 1};
    a.mode = is_directory(node) ? S_IFDIR | 0755 : S_IFREG | 0644;
    a.size = is_directory(node) ? 4096 : node % 1000003;
    a.blocks = (a.size + 511) / 512;
    a.atime = a.mtime = a.ctime = 1700000000 + node;
    return a;
}

static uint64_t looked_up(uint64_t parent, const char *name)
{
    long number = atol(name + 1);
    if (parent == 1)
        return name[0] == 'd' && number < directories ? 2 + (uint64_t)number : 0;
    return name[0] == 'f' && number < files ? 2 + (uint64_t)(directories + (parent - 2) * files + number) : 0;
}

static uint32_t listing(uint64_t node, uint64_t offset, uint32_t room, char *out)
{
    uint64_t count = node == 1 ? directories : files;
    uint32_t used = 0;
    for (; offset < count; offset++) {
        struct fuse_dirent entry = {.off = offset + 1, .type = node == 1 ? 4 : 8};
        char name[32];
        entry.namelen = snprintf(name, sizeof name, "%c%07lu", node == 1 ? 'd' : 'f', (unsigned long)offset);
        entry.ino = looked_up(node, name);
        uint32_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
        if (used + size > room)
            break;
        memset(out + used, 0, size);
        memcpy(out + used, &entry, FUSE_NAME_OFFSET);
        memcpy(out + used + FUSE_NAME_OFFSET, name, entry.namelen);
        used += size;
    }
    return used;
}

static void answer(const struct fuse_in_header *in, int error, const void *body, uint32_t length, int wait)
{
    struct answer *slot = &waiting[last % WAITING];
    struct fuse_out_header head = {.len = sizeof head + length, .error = -error, .unique = in->unique};
    memcpy(slot->bytes, &head, sizeof head);
    memcpy(slot->bytes + sizeof head, body, length);
    slot->length = head.len;
    if (!wait) {
        if (write(device, slot->bytes, slot->length) < 0 && errno != ENOENT)
            perror("answer");
        return;
    }
    slot->due_ns = now_ns() + delay_ns;
    last++;
    delayed++;
}

static void serve(const struct fuse_in_header *in, const char *body)
{
    char page[PAGE];
    if (in->opcode == FUSE_INIT) {
        const struct fuse_init_in *asked = (const void *)body;
        struct fuse_init_out out = {.major = 7, .minor = 31, .max_write = 4096, .time_gran = 1};
        out.flags = asked->flags & FUSE_PARALLEL_DIROPS;
        out.max_readahead = asked->max_readahead;
        answer(in, 0, &out, sizeof out, 0);
    } else if (in->opcode == FUSE_LOOKUP) {
        struct fuse_entry_out out = {.entry_valid = 3600, .attr_valid = 3600};
        out.nodeid = looked_up(in->nodeid, body);
        if (out.nodeid)
            out.attr = attributes(out.nodeid);
        answer(in, out.nodeid ? 0 : ENOENT, &out, out.nodeid ? sizeof out : 0, 1);
    } else if (in->opcode == FUSE_GETATTR) {
        struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
        answer(in, 0, &out, sizeof out, 1);
    } else if (in->opcode == FUSE_OPENDIR) {
        struct fuse_open_out out = {0};
        answer(in, 0, &out, sizeof out, 1);
    } else if (in->opcode == FUSE_READDIR) {
        const struct fuse_read_in *asked = (const void *)body;
        uint32_t room = asked->size < PAGE ? asked->size : PAGE;
        answer(in, 0, page, listing(in->nodeid, asked->offset, room, page), 1);
    } else if (in->opcode == FUSE_STATFS) {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
        answer(in, 0, &out, sizeof out, 0);
    } else if (in->opcode == FUSE_RELEASEDIR) {
        answer(in, 0, "", 0, 0);
    } else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT) {
        answer(in, ENOSYS, "", 0, 0);
    }
}

int main(int count, char **words)
{
    static char request[1 << 17];
    char options[80];
    if (count != 5)
        return fprintf(stderr, "slow_metadata MOUNTPOINT DIRECTORIES FILES DELAY_US\n"), 2;
    directories = atol(words[2]), files = atol(words[3]), delay_ns = atoll(words[4]) * 1000;
    waiting = malloc(sizeof *waiting * WAITING);
    device = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
    if (!waiting || device < 0 || mount("slow_metadata", words[1], "fuse", MS_NOSUID | MS_NODEV | MS_RDONLY, options))
        return perror("slow_metadata"), 1;
    for (;;) {
        long long now = now_ns();
        for (; first != last && waiting[first % WAITING].due_ns <= now; first++)
            if (write(device, waiting[first % WAITING].bytes, waiting[first % WAITING].length) < 0 && errno != ENOENT)
                perror("answer");
        ssize_t length = read(device, request, sizeof request);
        if (length >= (ssize_t)sizeof(struct fuse_in_header)) {
            serve((const void *)request, request + sizeof(struct fuse_in_header));
        } else if (length < 0 && errno == ENODEV) {
            break; /* unmounted */
        } else if (first != last) {
            long long left = waiting[first % WAITING].due_ns - now_ns();
            struct timespec pause = {0, left > 0 ? left : 0};
            struct pollfd ready = {.fd = device, .events = POLLIN};
            ppoll(&ready, 1, &pause, NULL);
        } else {
            struct pollfd ready = {.fd = device, .events = POLLIN};
            poll(&ready, 1, -1);
        }
    }
    printf("%ld\n", delayed);
    return 0;
}
