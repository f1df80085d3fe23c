/*
 * abandoned ROUNDS: a target with the guard loaded computes and waits. Again and again a tracer prepares a system
 * call in it, as dormouse-move does, and ends at once instead of putting it back. The target must go on as if nothing
 * had been.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "live-calls.h"
#include "live-tasks.h"

struct shared {
    uint64_t enter, frame;
    volatile uint64_t rounds, sleeps, alarms;
    volatile int is_wrong;
};

static struct shared *shared;

static void on_alarm(int number)
{
    (void)number;
    shared->alarms++;
}

/* Every general register but rsp and rbp, and the flags, hold known values over a stretch of instructions. */
static int registers_survive(uint64_t seed)
{
    uint64_t result = 1;
    __asm__ volatile("mov %1, %%rax\n lea 1(%%rax), %%rbx\n lea 2(%%rax), %%rcx\n lea 3(%%rax), %%rdx\n lea 4(%%rax), %%rsi\n"
                     "lea 5(%%rax), %%rdi\n lea 6(%%rax), %%r8\n lea 7(%%rax), %%r9\n lea 8(%%rax), %%r10\n lea 9(%%rax), %%r11\n"
                     "lea 10(%%rax), %%r12\n lea 11(%%rax), %%r13\n lea 12(%%rax), %%r14\n mov $3000, %%r15d\n"
                     "1: movq %%rax, %%xmm3\n push %%rax\n stc\n jnc 2f\n pop %%rax\n movq %%xmm3, %%r9\n sub %%rax, %%r9\n jnz 2f\n lea 7(%%rax), %%r9\n"
                     "dec %%r15d\n jnz 1b\n"
                     "sub %%rax, %%rbx\n sub %%rax, %%rcx\n sub %%rax, %%rdx\n sub %%rax, %%rsi\n sub %%rax, %%rdi\n sub %%rax, %%r8\n"
                     "sub %%rax, %%r9\n sub %%rax, %%r10\n sub %%rax, %%r11\n sub %%rax, %%r12\n sub %%rax, %%r13\n sub %%rax, %%r14\n"
                     "add %%rcx, %%rbx\n add %%rdx, %%rbx\n add %%rsi, %%rbx\n add %%rdi, %%rbx\n add %%r8, %%rbx\n add %%r9, %%rbx\n"
                     "add %%r10, %%rbx\n add %%r11, %%rbx\n add %%r12, %%rbx\n add %%r13, %%rbx\n add %%r14, %%rbx\n"
                     "sub $78, %%rbx\n mov %%rbx, %0\n jmp 3f\n 2: movq $7, %0\n 3:\n"
                     : "=m"(result)
                     : "m"(seed)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm3",
                       "cc", "memory");
    return result == 0;
}

static void target(void)
{
    shared->enter = (uint64_t)dlsym(RTLD_DEFAULT, "dormouse_guard_enter");
    shared->frame = (uint64_t)dlsym(RTLD_DEFAULT, "dormouse_guard_call");
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    for (uint64_t round = 1;; round++) {
        sigset_t mask;
        for (int i = 0; i < 20; i++)
            if (!registers_survive(round * 0x123456789))
                shared->is_wrong = 1;
        struct timespec start, end, wanted = {.tv_nsec = 300000};
        clock_gettime(CLOCK_MONOTONIC, &start);
        int result = clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, NULL);
        clock_gettime(CLOCK_MONOTONIC, &end);
        long ns = (end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
        if ((result != 0 && result != EINTR) || (result == 0 && ns < 300000))
            shared->is_wrong = 2;
        sigprocmask(SIG_SETMASK, NULL, &mask);
        if (sigismember(&mask, SIGALRM) || sigismember(&mask, SIGUSR1))
            shared->is_wrong = 3;
        shared->sleeps++;
        shared->rounds = round;
    }
}

/* Ends with the target in one of three states: before the call, after it, or after a second one. */
static void abandon(pid_t thread, int state)
{
    struct live_calls calls = {.thread = thread, .enter = shared->enter, .frame = shared->frame};
    if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) == -1 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) == -1)
        _exit(2);
    if (wait_for_stop(thread) != STOP_EVENT)
        _exit(3);
    if (!can_call(&calls) || !begin_calls(&calls, "/"))
        _exit(4);
    const uint64_t none[6] = {0};
    if (state == 0) {
        struct user_regs_struct regs = calls.before;
        const uint64_t all = ~0ul;
        regs.rip = calls.enter;
        regs.rax = 110; /* getppid */
        regs.orig_rax = (uint64_t)-1;
        ptrace(PTRACE_SETREGS, thread, 0, &regs);
        ptrace(PTRACE_SETSIGMASK, thread, 8, &all);
    } else
        for (int i = 0; i < state; i++)
            if (call_inside(&calls, 39 /* getpid */, none) != thread)
                _exit(5);
    if (state == 3 && !end_calls(&calls))
        _exit(6);
    _exit(0);
}

int main(int count, char **words)
{
    int rounds = count > 1 ? atoi(words[1]) : 100;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t thread = fork();
    if (thread == 0)
        target();
    while (shared->rounds == 0)
        usleep(1000);
    for (int i = 0; i < rounds; i++) {
        pid_t tracer = fork();
        if (tracer == 0)
            abandon(thread, i % 4);
        kill(thread, SIGALRM);
        int status;
        if (waitpid(tracer, &status, 0) != tracer || !WIFEXITED(status) || (WEXITSTATUS(status) > 0 && WEXITSTATUS(status) != 3)) {
            printf("tracer %d: status %x\n", i, status);
            return 1;
        }
        uint64_t before = shared->rounds;
        for (int waits = 0; shared->rounds < before + 2; waits++) {
            if (waits > 100000 || shared->is_wrong || waitpid(thread, &status, WNOHANG) != 0) {
                printf("target after %d: wrong %d, rounds %lu\n", i, shared->is_wrong, (unsigned long)shared->rounds);
                return 1;
            }
            usleep(50);
        }
    }
    kill(thread, SIGKILL);
    printf("fine %d\n", shared->alarms > 0);
    return 0;
}
