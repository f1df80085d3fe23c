/*
 * Part of libdormouse-enter.so, preloaded into CRIU: keeps locks of files that are also mapped through a restore.
 *
 * Kernel rule: when a process closes any descriptor of a file, it loses all its POSIX locks on that file. CRIU sets a
 * process's locks, then opens the files that it maps, maps them and closes them. A database whose index is both locked
 * and mapped (SQLite with a write-ahead log) would wake without its locks, and other processes could take them. So this
 * library records every lock that CRIU sets, and sets it again inside the process when CRIU stops it for the last time:
 * after the mapping, before its own code runs.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tell-restored.h"

/* More descriptors than a whole burrow can have; untouched pages cost nothing. */
#define LOCKS_MAX 65536
/* Farther below the stack pointer than the red zone: the 128 bytes there that a function may use. */
#define BELOW_STACK 1024

struct lock {
    pid_t pid;
    int fd;
    struct flock range;
};

/* Shared by CRIU and all the processes that it creates. */
static struct {
    unsigned count;
    struct lock locks[LOCKS_MAX];
} *table = MAP_FAILED;

#if defined(__x86_64__)
typedef struct user_regs_struct registers;
static const uint16_t system_call = 0x050f;
static uint64_t *program_counter(registers *r) { return (uint64_t *)&r->rip; }
static uint64_t stack_pointer(const registers *r) { return r->rsp; }
static long result(const registers *r) { return (long)r->rax; }
static void prepare(registers *r, long number, const uint64_t args[3])
{
    r->orig_rax = (uint64_t)-1; /* Not inside a system call, which the kernel would restart. */
    r->rax = (uint64_t)number;
    r->rdi = args[0];
    r->rsi = args[1];
    r->rdx = args[2];
}
#elif defined(__aarch64__)
typedef struct user_regs_struct registers;
static const uint32_t system_call = 0xd4000001;
static uint64_t *program_counter(registers *r) { return (uint64_t *)&r->pc; }
static uint64_t stack_pointer(const registers *r) { return r->sp; }
static long result(const registers *r) { return (long)r->regs[0]; }
static void prepare(registers *r, long number, const uint64_t args[3])
{
    r->regs[8] = (uint64_t)number;
    memcpy(r->regs, args, 3 * sizeof(*args));
}
#else
#error "no way to make a system call in another process on this machine"
#endif

__attribute__((constructor)) static void share_table(void)
{
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static long trace(int request, pid_t pid, uintptr_t address, uintptr_t data)
{
    static long (*real)(int, ...);
    if (!real)
        real = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
    return real(request, pid, address, data);
}

static bool read_registers(pid_t pid, registers *r)
{
    struct iovec view = {r, sizeof(*r)};
    return trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, (uintptr_t)&view) != -1;
}

static bool write_registers(pid_t pid, registers *r)
{
    struct iovec view = {r, sizeof(*r)};
    return trace(PTRACE_SETREGSET, pid, NT_PRSTATUS, (uintptr_t)&view) != -1;
}

/* Size is a multiple of a word. */
static bool peek(pid_t pid, uint64_t at, void *into, size_t size)
{
    for (size_t done = 0; done < size; done += sizeof(long)) {
        errno = 0;
        long word = trace(PTRACE_PEEKDATA, pid, at + done, 0);
        if (errno)
            return false;
        memcpy((char *)into + done, &word, sizeof(word));
    }
    return true;
}

static bool poke(pid_t pid, uint64_t at, const void *from, size_t size)
{
    for (size_t done = 0; done < size; done += sizeof(long)) {
        long word;
        memcpy(&word, (const char *)from + done, sizeof(word));
        if (trace(PTRACE_POKEDATA, pid, at + done, (uintptr_t)word) == -1)
            return false;
    }
    return true;
}

static bool step(pid_t pid)
{
    int status;
    if (trace(PTRACE_SINGLESTEP, pid, 0, 0) == -1)
        return false;
    while (waitpid(pid, &status, __WALL) == -1)
        if (errno != EINTR)
            return false;
    return WIFSTOPPED(status);
}

/* Pre: the process is stopped, with a system call instruction where its program counter points. */
static bool set_lock(pid_t pid, const registers *stopped, const struct lock *lock)
{
    uint64_t range = (stack_pointer(stopped) - BELOW_STACK) & ~(uint64_t)15;
    registers call = *stopped;
    prepare(&call, SYS_fcntl, (uint64_t[]){(uint64_t)lock->fd, F_SETLK, range});
    return poke(pid, range, &lock->range, sizeof(lock->range)) && write_registers(pid, &call) && step(pid) &&
           read_registers(pid, &call) && result(&call) == 0;
}

/* Sets all locks of a stopped process again, and leaves it as it was. */
static bool relock(pid_t pid)
{
    registers stopped;
    if (!read_registers(pid, &stopped))
        return false;
    uint64_t code = *program_counter(&stopped);
    uint64_t range = (stack_pointer(&stopped) - BELOW_STACK) & ~(uint64_t)15;
    long instruction, own_instruction;
    struct flock own_stack;
    if (!peek(pid, code, &own_instruction, sizeof(own_instruction)) || !peek(pid, range, &own_stack, sizeof(own_stack)))
        return false;
    instruction = own_instruction;
    memcpy(&instruction, &system_call, sizeof(system_call));
    bool done = poke(pid, code, &instruction, sizeof(instruction));
    for (unsigned i = 0; done && i < table->count; i++)
        if (table->locks[i].pid == pid)
            done = set_lock(pid, &stopped, &table->locks[i]);
    bool restored = poke(pid, code, &own_instruction, sizeof(own_instruction)) &&
                    poke(pid, range, &own_stack, sizeof(own_stack)) && write_registers(pid, &stopped);
    return done && restored;
}

static bool has_locks(pid_t pid)
{
    if (table == MAP_FAILED)
        return false;
    for (unsigned i = 0; i < table->count; i++)
        if (table->locks[i].pid == pid)
            return true;
    return false;
}

/*
 * Once all memory is restored, CRIU stops every thread with PTRACE_SEIZE, and continues it with PTRACE_CONT until it
 * reaches its own code.
 */
__attribute__((visibility("default"))) long ptrace(enum __ptrace_request request, ...)
{
    va_list list;
    va_start(list, request);
    pid_t pid = va_arg(list, pid_t);
    uintptr_t address = va_arg(list, uintptr_t), data = va_arg(list, uintptr_t);
    va_end(list);
    if (request == PTRACE_SEIZE)
        tell_restored();
    if (request == PTRACE_CONT && has_locks(pid) && !relock(pid)) {
        dprintf(STDERR_FILENO, "Error (relock): locks of task %d are lost: %s\n", pid, strerror(errno));
        errno = ENOLCK;
        return -1;
    }
    return trace(request, pid, address, data);
}

/* CRIU is compiled for large files, so its calls of fcntl are calls of fcntl64. */
__attribute__((visibility("default"))) int fcntl64(int fd, int command, ...)
{
    static int (*real)(int, int, ...);
    if (!real)
        real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    int done = real(fd, command, argument);
    if (done == -1 || command != F_SETLKW || table == MAP_FAILED)
        return done;
    unsigned at = __atomic_fetch_add(&table->count, 1, __ATOMIC_RELAXED);
    if (at >= LOCKS_MAX) {
        __atomic_fetch_sub(&table->count, 1, __ATOMIC_RELAXED);
        errno = ENOLCK;
        return -1;
    }
    struct flock range = *(const struct flock *)argument;
    range.l_pid = 0;
    table->locks[at] = (struct lock){getpid(), fd, range};
    return done;
}
