/* The differences between x86-64 and aarch64: the counter, a hook's caller, return addresses,
   signal frames. */
#ifndef HEAPLAB_ARCH_H
#define HEAPLAB_ARCH_H

#include "state.h"

/* The caller's registers as they are after the hook returns. A macro, because the builtins refer to
   the function around them. */
#define CALLER()                                                                                                                  \
    ((struct registers){strip((uintptr_t)__builtin_return_address(0)), (uintptr_t)__builtin_dwarf_cfa(),                          \
                        *(uintptr_t *)__builtin_frame_address(0)})

/* The caller's stack pointer alone. */
#define FRAME() ((uintptr_t)__builtin_dwarf_cfa())

#if defined(__x86_64__)

#define HL_ARCHITECTURE HL_X86_64
#define LIBC_VERSION "GLIBC_2.2.5" /* the first version of the C library */
#define DWARF_FP 6
#define DWARF_SP 7
#define DWARF_RA 16
/* On entry to a function its return address lies at CFA - 8. */
#define RA_ON_ENTRY (-8)

ALWAYS_INLINE uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

ALWAYS_INLINE uintptr_t strip(uintptr_t ip) { return ip; }
ALWAYS_INLINE void spin_pause(void) { __asm__ volatile("pause"); }

/* mov $15, %rax; syscall */
ALWAYS_INLINE bool is_sigreturn(const uint8_t *code)
{
    static const uint8_t expected[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    for (unsigned i = 0; i < sizeof expected; i++)
        if (code[i] != expected[i])
            return false;
    return true;
}

/* Byte offsets from sp in a signal frame (a struct ucontext) of the interrupted ip, sp and fp. */
#define SIGNAL_IP (40 + 16 * 8)
#define SIGNAL_SP (40 + 15 * 8)
#define SIGNAL_FP (40 + 10 * 8)

/* syscall(): a jump that leaves all registers and the stack unchanged. The kernel returns twice
 * from some calls (a child of vfork on its parent's stack, a child of clone on a new one) and takes
 * any of six arguments. */
#define NUMBER_TEXT(number) #number
#define SYSCALL_ENTRY(execve, execveat, seccomp, prctl)                                                                           \
    __asm__(".text\n.p2align 4\n.globl syscall\n.type syscall, @function\nsyscall:\n.cfi_startproc\nendbr64\n"                    \
            "cmpq $" NUMBER_TEXT(execve) ", %rdi\nje syscall_that_matters\n"                                                      \
            "cmpq $" NUMBER_TEXT(execveat) ", %rdi\nje syscall_that_matters\n"                                                    \
            "cmpq $" NUMBER_TEXT(seccomp) ", %rdi\nje syscall_that_matters\n"                                                     \
            "cmpq $" NUMBER_TEXT(prctl) ", %rdi\nje syscall_that_matters\n"                                                       \
            "movq next_syscall(%rip), %rax\ntestq %rax, %rax\njz syscall_at_first\njmp *%rax\n.cfi_endproc\n.size syscall, . - syscall")

#elif defined(__aarch64__)

#define HL_ARCHITECTURE HL_AARCH64
#define LIBC_VERSION "GLIBC_2.17"
#define DWARF_FP 29
#define DWARF_SP 31
#define DWARF_RA 30
/* On entry to a function its return address is in a register. */
#define RA_ON_ENTRY 0

ALWAYS_INLINE uint64_t counter(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}

/* Strips a pointer authentication code (xpaclri; a no-op on machines without them). */
ALWAYS_INLINE uintptr_t strip(uintptr_t ip)
{
    register uintptr_t lr __asm__("x30") = ip;
    __asm__("hint #7" : "+r"(lr));
    return lr;
}
ALWAYS_INLINE void spin_pause(void) { __asm__ volatile("yield"); }

/* mov x8, #139; svc #0 */
ALWAYS_INLINE bool is_sigreturn(const uint8_t *code)
{
    const uint32_t *words = (const uint32_t *)code;
    return words[0] == 0xd2801168 && words[1] == 0xd4000001;
}

/* siginfo (128 bytes), then struct ucontext with mcontext at 176: fault_address, x0 ... x30, sp,
   pc. */
#define SIGNAL_MCONTEXT (128 + 176)
#define SIGNAL_IP (SIGNAL_MCONTEXT + 8 + 32 * 8)
#define SIGNAL_SP (SIGNAL_MCONTEXT + 8 + 31 * 8)
#define SIGNAL_FP (SIGNAL_MCONTEXT + 8 + 29 * 8)

/* As for x86-64. */
#define NUMBER_TEXT(number) #number
#define SYSCALL_ENTRY(execve, execveat, seccomp, prctl)                                                                           \
    __asm__(".text\n.p2align 4\n.globl syscall\n.type syscall, %function\nsyscall:\n.cfi_startproc\nhint #34\n"                   \
            "cmp x0, #" NUMBER_TEXT(execve) "\nb.eq syscall_that_matters\n"                                                       \
            "cmp x0, #" NUMBER_TEXT(execveat) "\nb.eq syscall_that_matters\n"                                                     \
            "cmp x0, #" NUMBER_TEXT(seccomp) "\nb.eq syscall_that_matters\n"                                                      \
            "cmp x0, #" NUMBER_TEXT(prctl) "\nb.eq syscall_that_matters\n"                                                        \
            "adrp x16, next_syscall\nldr x16, [x16, #:lo12:next_syscall]\ncbz x16, syscall_at_first\nbr x16\n"                    \
            ".cfi_endproc\n.size syscall, . - syscall")

#else
#error "heaplab records on x86-64 and aarch64"
#endif

#endif
