/* C++ operator new and delete.
 *
 * Those of libstdc++ and libc++ call malloc and free and are recorded there: the hooks below pass
 * the call on as a jump and leave no frame. An allocator's own operators (jemalloc, mimalloc,
 * tcmalloc) may bypass malloc: then the hooks record, as family "new". Operators that do call
 * malloc (jemalloc's deletes and aligned news) call it from inside of the allocator.
 *
 * Preloaded definitions also win for C++ libraries that a C program loads later with RTLD_LOCAL.
 * There the search order after us holds no operator new. Such calls get malloc and free, as the
 * library's own operators would call. Only when memory runs out, the library's own operator is
 * looked up through the caller, to run the new-handler and throw. */
#include "arch.h"

#define OPERATORS(X)                                                                                                              \
    X(_Znwm) X(_Znam) X(_ZnwmRKSt9nothrow_t) X(_ZnamRKSt9nothrow_t) X(_ZnwmSt11align_val_t) X(_ZnamSt11align_val_t)               \
        X(_ZnwmSt11align_val_tRKSt9nothrow_t) X(_ZnamSt11align_val_tRKSt9nothrow_t) X(_ZdlPv) X(_ZdaPv) X(_ZdlPvm) X(_ZdaPvm)     \
            X(_ZdlPvRKSt9nothrow_t) X(_ZdaPvRKSt9nothrow_t) X(_ZdlPvSt11align_val_t) X(_ZdaPvSt11align_val_t)                     \
                X(_ZdlPvmSt11align_val_t) X(_ZdaPvmSt11align_val_t) X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                        \
                    X(_ZdaPvSt11align_val_tRKSt9nothrow_t)

/* Each takes at most three words (block or size, then alignment, size or nothrow) and returns one
   or nothing. */
typedef void *(*any_operator)(size_t, size_t, size_t);
static struct {
#define FIELD(name) any_operator name;
    OPERATORS(FIELD)
#undef FIELD
    bool record;
} next_operator;

static void resolve_operators(void)
{
#define LOOK_UP_OPERATOR(name) next_operator.name = (any_operator)dlsym(RTLD_NEXT, #name);
    OPERATORS(LOOK_UP_OPERATOR)
#undef LOOK_UP_OPERATOR
    next_operator.record = next_operator._Znwm && in_range(next.allocator, (uintptr_t)next_operator._Znwm);
}

/* The definition that the caller would reach without us; NULL: none. */
COLD static any_operator operator_of_caller(uintptr_t caller, const char *name)
{
    Dl_info info;
    if (!dladdr((void *)caller, &info) || !info.dli_fname)
        return NULL;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return library ? (any_operator)dlsym(library, name) : NULL;
}

/* operator new without a definition later in the search order. */
COLD static void *new_without_next(struct registers at, size_t size, size_t second, size_t third, size_t alignment, const char *name)
{
    void *block = NULL;
    if (!alignment)
        block = next.malloc(size ? size : 1);
    else if (next.posix_memalign(&block, alignment < sizeof(void *) ? sizeof(void *) : alignment, size ? size : 1))
        block = NULL;
    if (block) {
        record_allocation(at, block, size, alignment ? aligned_properties(alignment) : 0);
        return block;
    }
    any_operator own = operator_of_caller(at.ip, name);
    if (!own)
        /* out of memory and nothing to throw: end as an uncaught bad_alloc would */
        __builtin_trap();
    return own(size, second, third);
}

#define NEW(name, align)                                                                                                          \
    EXPORT void *name(size_t size, size_t second, size_t third)                                                                   \
    {                                                                                                                             \
        any_operator found = next_operator.name;                                                                                  \
        if (likely(found && !next_operator.record))                                                                               \
            return found(size, second, third);                                                                                    \
        return name##_slow(size, second, third, CALLER());                                                                        \
    }
#define NEW_SLOW(name, align)                                                                                                     \
    static __attribute__((noinline)) void *name##_slow(size_t size, size_t second, size_t third, struct registers at)             \
    {                                                                                                                             \
        any_operator found = next_operator.name;                                                                                  \
        if (unlikely(!found)) {                                                                                                   \
            if (resolve() && next_operator.name && !next_operator.record)                                                         \
                return next_operator.name(size, second, third);                                                                   \
            if (!(found = next_operator.name))                                                                                    \
                return new_without_next(at, size, second, third, align, #name);                                                   \
        }                                                                                                                         \
        uintptr_t outer = inside;                                                                                                 \
        inside = at.sp; /* stays set after a throw: then only the allocator's own calls count */                                  \
        void *block = found(size, second, third);                                                                                 \
        inside = outer;                                                                                                           \
        if (!internal_call(at.ip))                                                                                                \
            record_allocation(at, block, size,                                                                                    \
                              (align ? aligned_properties(align) & ~(3ull << HL_FAMILY_SHIFT) : 0) | (uint64_t)HL_FAMILY_NEW << HL_FAMILY_SHIFT); \
        return block;                                                                                                             \
    }
#define DELETE(name)                                                                                                              \
    EXPORT void name(void *block, size_t second, size_t third)                                                                    \
    {                                                                                                                             \
        any_operator found = next_operator.name;                                                                                  \
        if (likely(found && !next_operator.record)) {                                                                             \
            found((size_t)block, second, third);                                                                                  \
            return;                                                                                                               \
        }                                                                                                                         \
        if (block)                                                                                                                \
            delete_slow(block, second, third, &next_operator.name, CALLER());                                                     \
    }

static __attribute__((noinline)) void delete_slow(void *block, size_t second, size_t third, any_operator *found, struct registers at)
{
    if (resolve() && *found && !next_operator.record) {
        (*found)((size_t)block, second, third);
        return;
    }
    if (!internal_call(at.ip))
        record_pair(at, block, HL_FREE);
    uintptr_t outer = inside;
    inside = at.sp;
    if (*found)
        (*found)((size_t)block, second, third);
    else
        next.free(block);
    inside = outer;
}

#define NEWS(X)                                                                                                                   \
    X(_Znwm, 0) X(_Znam, 0) X(_ZnwmRKSt9nothrow_t, 0) X(_ZnamRKSt9nothrow_t, 0) X(_ZnwmSt11align_val_t, second)                   \
        X(_ZnamSt11align_val_t, second) X(_ZnwmSt11align_val_tRKSt9nothrow_t, second) X(_ZnamSt11align_val_tRKSt9nothrow_t, second)
#define DELETES(X)                                                                                                                \
    X(_ZdlPv) X(_ZdaPv) X(_ZdlPvm) X(_ZdaPvm) X(_ZdlPvRKSt9nothrow_t) X(_ZdaPvRKSt9nothrow_t) X(_ZdlPvSt11align_val_t)            \
        X(_ZdaPvSt11align_val_t) X(_ZdlPvmSt11align_val_t) X(_ZdaPvmSt11align_val_t) X(_ZdlPvSt11align_val_tRKSt9nothrow_t)       \
            X(_ZdaPvSt11align_val_tRKSt9nothrow_t)

NEWS(NEW_SLOW)
NEWS(NEW)
DELETES(DELETE)
