#include "arriving-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report.h"

static const uint8_t *open_map(int maps, const char *name, uint64_t pages)
{
    int fd = maps == -1 ? -1 : openat(maps, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1 && (maps == -1 || errno == ENOENT))
        return NULL;
    CHECK(fd, "open the map of %s", name);
    struct stat stat;
    CHECK(fstat(fd, &stat), "stat the map of %s", name);
    if ((uint64_t)stat.st_size != pages)
        refuse("the map of %s has %lld bytes", name, (long long)stat.st_size);
    void *map = mmap(NULL, pages, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        fail("map of %s", name);
    close(fd);
    return map;
}

static struct arriving_file open_file(int directory, int maps, const char *name)
{
    struct arriving_file file = {.name = strdup(name)};
    if (!file.name)
        fail("memory");
    file.fd = CHECK(openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), "open %s", name);
    CHECK(fstat(file.fd, &file.stat), "stat %s", name);
    file.pages = ((uint64_t)file.stat.st_size + PAGE_BYTES - 1) / PAGE_BYTES;
    if (file.pages > 0)
        file.map = open_map(maps, name, file.pages);
    return file;
}

struct arriving_files open_arriving(const char *path, const char *maps_path)
{
    struct arriving_files files = {0};
    int directory = CHECK(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the memory files");
    int maps = open(maps_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (maps == -1 && errno != ENOENT)
        fail("open the maps");
    DIR *entries = fdopendir(CHECK(dup(directory), "dup"));
    if (!entries)
        fail("list the memory files");
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (entry->d_name[0] == '.')
            continue;
        files.list = reallocarray(files.list, files.count + 1, sizeof(*files.list));
        if (!files.list)
            fail("memory");
        files.list[files.count++] = open_file(directory, maps, entry->d_name);
    }
    closedir(entries);
    close(directory);
    if (maps != -1)
        close(maps);
    return files;
}

enum page_state state_of(const struct arriving_files *files, uint32_t index, uint64_t offset, uint64_t length)
{
    const struct arriving_file *file = &files->list[index];
    enum page_state worst = PAGE_THERE;
    if (!file->map || length == 0)
        return worst;
    uint64_t last = (offset + length - 1) / PAGE_BYTES;
    for (uint64_t page = offset / PAGE_BYTES; page <= last && page < file->pages; page++) {
        if (file->map[page] == PAGE_LOST)
            return PAGE_LOST;
        if (file->map[page] == PAGE_MISSING)
            worst = PAGE_MISSING;
    }
    /* What the engine wrote before the byte of the map is read after it. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return worst;
}
