/* SPDX-License-Identifier: BSD-3-Clause */

/* The switch saves what the calling convention says that a callee keeps, on the stack that is
 * left: some ten instructions. ucontext does the same with a system call for the signal mask each
 * way, which is most of a simulation's time; it serves where the machine is another one. */

#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fiber.h"

#define STACK_BYTES ((size_t)128 << 10)
#define KEPT_STACKS 4096

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/* ---- the switch ---- */

void loci_fiber_swap(void **save, void *load);
static void begin(struct loci_fiber *fiber);

#if defined(__x86_64__)

asm(".text\n"
    ".globl loci_fiber_swap\n"
    ".hidden loci_fiber_swap\n"
    ".type loci_fiber_swap, @function\n"
    "loci_fiber_swap:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size loci_fiber_swap, .-loci_fiber_swap\n"
    ".globl loci_fiber_entry\n"
    ".hidden loci_fiber_entry\n"
    ".type loci_fiber_entry, @function\n"
    "loci_fiber_entry:\n"           /* r12: the fiber, r13: begin() */
    "    movq %r12, %rdi\n"
    "    call *%r13\n"
    "    ud2\n"
    ".size loci_fiber_entry, .-loci_fiber_entry\n");

void loci_fiber_entry(void);

static void *first_frame(struct loci_fiber *fiber)
{
    /* The entry begins with an aligned stack, since it calls. */
    uint64_t *top = (uint64_t *)(void *)(fiber->stack + fiber->stack_len) - 3;

    *top = (uint64_t)(uintptr_t)loci_fiber_entry;
    top -= 6;
    for (int i = 0; i < 6; i++)
        top[i] = 0;
    top[3] = (uint64_t)(uintptr_t)fiber;
    top[2] = (uint64_t)(uintptr_t)begin;
    return top;
}

#elif defined(__aarch64__)

asm(".text\n"
    ".globl loci_fiber_swap\n"
    ".hidden loci_fiber_swap\n"
    ".type loci_fiber_swap, %function\n"
    "loci_fiber_swap:\n"
    "    sub sp, sp, #176\n"
    "    stp x19, x20, [sp, #0]\n"
    "    stp x21, x22, [sp, #16]\n"
    "    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n"
    "    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n"
    "    stp d10, d11, [sp, #112]\n"
    "    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n"
    "    str x9, [x0]\n"
    "    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n"
    "    ldp x21, x22, [sp, #16]\n"
    "    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n"
    "    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n"
    "    ldp d10, d11, [sp, #112]\n"
    "    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #176\n"
    "    ret\n"
    ".size loci_fiber_swap, .-loci_fiber_swap\n"
    ".globl loci_fiber_entry\n"
    ".hidden loci_fiber_entry\n"
    ".type loci_fiber_entry, %function\n"
    "loci_fiber_entry:\n"           /* x19: the fiber, x20: begin() */
    "    mov x0, x19\n"
    "    blr x20\n"
    "    brk #0\n"
    ".size loci_fiber_entry, .-loci_fiber_entry\n");

void loci_fiber_entry(void);

static void *first_frame(struct loci_fiber *fiber)
{
    uint64_t *top = (uint64_t *)(void *)(fiber->stack + fiber->stack_len) - 22;

    for (int i = 0; i < 22; i++)
        top[i] = 0;
    top[0] = (uint64_t)(uintptr_t)fiber;
    top[1] = (uint64_t)(uintptr_t)begin;
    top[11] = (uint64_t)(uintptr_t)loci_fiber_entry;
    return top;
}

#else

#include <ucontext.h>

/* The context lies at the foot of the stack that it belongs to; the main one's is its own. */
void loci_fiber_swap(void **save, void *load)
{
    ucontext_t here;

    *save = &here;
    swapcontext(&here, load);
}

static void enter(unsigned high, unsigned low)
{
    begin((struct loci_fiber *)(((uintptr_t)high << 16 << 16) | low));
}

static void *first_frame(struct loci_fiber *fiber)
{
    ucontext_t *context = (ucontext_t *)(void *)fiber->stack;
    uintptr_t number = (uintptr_t)fiber;
    size_t used = (sizeof *context + 63) / 64 * 64;

    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack + used;
    context->uc_stack.ss_size = fiber->stack_len - used;
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))enter, 2, (unsigned)(number >> 16 >> 16),
                (unsigned)number);
    return context;
}

#endif

/* ---- what sanitizers want to know ---- */

static void leave(struct loci_fiber *from, struct loci_fiber *to, bool last)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->sanitizer, to->stack, to->stack_len);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(to->sanitizer, 0);
#endif
    (void)from;
    (void)to;
    (void)last;
}

static void arrived(struct loci_fiber *here)
{
#ifdef WITH_ASAN
    const void *bottom;
    size_t len;

    __sanitizer_finish_switch_fiber(here->sanitizer, &bottom, &len);
    if (here->from->stack == NULL || here->from->stack_len == 0) {
        here->from->stack = (unsigned char *)(uintptr_t)bottom;
        here->from->stack_len = len;
    }
#endif
    (void)here;
}

static void begin(struct loci_fiber *fiber)
{
    arrived(fiber);
    fiber->fn(fiber->arg);
    abort();
}

void loci_fiber_switch(struct loci_fiber *from, struct loci_fiber *to, bool last)
{
    to->from = from;
    leave(from, to, last);
    loci_fiber_swap(&from->sp, to->sp);
    arrived(from);
}

/* ---- stacks ---- */

/* Freed stacks, linked through their first bytes: the only state that outlives a simulation. */
static _Thread_local unsigned char *kept;
static _Thread_local int kept_count;

static unsigned char *take_stack(void)
{
    unsigned char *stack = kept;

    if (stack == NULL) {
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        return stack == MAP_FAILED ? NULL : stack;
    }
    kept = *(unsigned char **)(void *)stack;
    kept_count--;
    return stack;
}

void loci_fiber_main(struct loci_fiber *fiber)
{
    *fiber = (struct loci_fiber){ .stack = NULL };
#ifdef __SANITIZE_THREAD__
    fiber->sanitizer = __tsan_get_current_fiber();
#endif
}

bool loci_fiber_make(struct loci_fiber *fiber, void (*fn)(void *arg), void *arg)
{
    *fiber = (struct loci_fiber){ .stack = take_stack(), .stack_len = STACK_BYTES, .fn = fn,
                                  .arg = arg };
    if (fiber->stack == NULL)
        return false;
#ifdef __SANITIZE_THREAD__
    fiber->sanitizer = __tsan_create_fiber(0);
#endif
    fiber->sp = first_frame(fiber);
    return true;
}

void loci_fiber_free(struct loci_fiber *fiber)
{
#ifdef __SANITIZE_THREAD__
    if (fiber->sanitizer != NULL)
        __tsan_destroy_fiber(fiber->sanitizer);
#endif
    if (fiber->stack == NULL)
        return;
#ifdef WITH_ASAN
    /* Frames that nobody left are still marked; what comes here next is not theirs. */
    __asan_unpoison_memory_region(fiber->stack, STACK_BYTES);
#endif
    if (kept_count == KEPT_STACKS) {
        munmap(fiber->stack, STACK_BYTES);
    } else {
        *(unsigned char **)(void *)fiber->stack = kept;
        kept = fiber->stack;
        kept_count++;
    }
    fiber->stack = NULL;
}
