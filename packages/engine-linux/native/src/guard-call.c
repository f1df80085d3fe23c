/*
 * The way back for a thread in which dormouse-move made system calls: see guard-call.h. It uses no stack, and changes
 * no flag after it has restored them (mov does not). Signals stay blocked until rsp is the thread's own again.
 */
#include <stddef.h>

#include "guard.h"
#include "guard-call.h"

__attribute__((aligned(PAGE_BYTES), visibility("hidden"))) struct guard_call guard_call_frame = {.in_use = 0};
extern struct guard_call dormouse_guard_call __attribute__((alias("guard_call_frame"), visibility("default")));

#define AT(field) "guard_call_frame+%c[" #field "](%%rip)"
#define OFFSET(field) [field] "i"(offsetof(struct guard_call, field))

/* Never called: the mover puts the address of the symbol into rip. */
__attribute__((naked, used)) static void way_back(void)
{
    __asm__(".globl dormouse_guard_enter\n"
            ".type dormouse_guard_enter, @function\n"
            "dormouse_guard_enter:\n"
            "syscall\n"
            "lea " AT(flags) ", %%rsp\n"
            "popfq\n"
            "mov " AT(rsp) ", %%rsp\n"
            "mov $14, %%eax\n" /* rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8) */
            "mov $2, %%edi\n"
            "lea " AT(signal_mask) ", %%rsi\n"
            "mov $0, %%edx\n"
            "mov $8, %%r10d\n"
            "syscall\n"
            "mov " AT(rax) ", %%rax\n"
            "mov " AT(rdi) ", %%rdi\n"
            "mov " AT(rsi) ", %%rsi\n"
            "mov " AT(rdx) ", %%rdx\n"
            "mov " AT(r10) ", %%r10\n"
            "mov " AT(r8) ", %%r8\n"
            "mov " AT(r9) ", %%r9\n"
            "mov " AT(rcx) ", %%rcx\n"
            "mov " AT(r11) ", %%r11\n"
            "movq $0, " AT(in_use) "\n"
            "jmp *" AT(rip) "\n"
            ".size dormouse_guard_enter, . - dormouse_guard_enter\n"
            :
            : OFFSET(flags), OFFSET(rsp), OFFSET(signal_mask), OFFSET(rax), OFFSET(rdi), OFFSET(rsi), OFFSET(rdx),
              OFFSET(r10), OFFSET(r8), OFFSET(r9), OFFSET(rcx), OFFSET(r11), OFFSET(in_use), OFFSET(rip));
}
