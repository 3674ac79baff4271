/* Unwind rules, each packed in a word, in one table from return address to rule for the whole
 * process: a frame costs one probe. Readers take no lock; dwarf.c works out a miss under
 * recorder.modules_lock. */
#include "arch.h"

/* Packed: kind in bits 0-2, the source of the caller's frame address in 3-4, fp in 5-6, RULE_WITHIN
 * in 7, the three offsets in words of 8 bytes in 8-31 (cfa), 32-47 (fp) and 48-63 (return address).
 * A rule that does not fit is no rule. */
typedef uint64_t packed;
/* a step from sp by a constant that reads only words of this frame: most are */
#define RULE_WITHIN 128u
#define RULE_UNKNOWN 5 /* not known code; never in the table */
#define RULE_UNSURE 7  /* the same, but nobody looked for it */
#define RULE_LEAF 6    /* aarch64, interrupted code only: the return address is in its register */

ALWAYS_INLINE unsigned rule_kind(packed rule) { return rule & 7; }
ALWAYS_INLINE bool rule_unknown(packed rule) { return (rule & RULE_UNKNOWN) == RULE_UNKNOWN; }
_Static_assert((RULE_UNSURE & RULE_UNKNOWN) == RULE_UNKNOWN && (RULE_LEAF & RULE_UNKNOWN) != RULE_UNKNOWN, "these two and no others");
ALWAYS_INLINE unsigned rule_cfa(packed rule) { return rule >> 3 & 3; }
ALWAYS_INLINE unsigned rule_fp(packed rule) { return rule >> 5 & 3; }
ALWAYS_INLINE intptr_t rule_cfa_offset(packed rule) { return ((intptr_t)(rule << 32) >> 40) * 8; }
ALWAYS_INLINE intptr_t rule_fp_offset(packed rule) { return (intptr_t)(int16_t)(rule >> 32) * 8; }
ALWAYS_INLINE intptr_t rule_ra_offset(packed rule) { return (intptr_t)(int16_t)(rule >> 48) * 8; }

#define RULES_BITS_FIRST 12
#define RULE_VALUES_MAX 65536u

/* address (48 bits) above, index into rule_values below; 0: empty */
struct rule_table {
    uint32_t shift, used;
    uint64_t entries[] __attribute__((aligned(64)));
};
static struct rule_table *rule_table;
static uint8_t first_rule_table[sizeof(struct rule_table) + (sizeof(uint64_t) << RULES_BITS_FIRST)] __attribute__((aligned(64)));
static packed rule_values[RULE_VALUES_MAX];
static uint32_t rule_value_count;

static bool fits(int64_t offset, unsigned bits)
{
    return offset % 8 == 0 && offset / 8 < (int64_t)1 << (bits - 1) && offset / 8 >= -((int64_t)1 << (bits - 1));
}

static bool within(const struct rule *rule)
{
    if (rule->cfa != CFA_SP || rule->cfa_offset <= 0 || rule->ra_offset > -8 || rule->ra_offset < -rule->cfa_offset)
        return false;
    return rule->fp == FP_SAME || (rule->fp == FP_AT_CFA && rule->fp_offset <= -8 && rule->fp_offset >= -rule->cfa_offset);
}

static packed pack(const struct rule *rule)
{
    if (rule->kind != RULE_STEP)
        return rule->kind;
    if (!fits(rule->cfa_offset, 24) || !fits(rule->fp_offset, 16) || !fits(rule->ra_offset, 16))
        return RULE_STOP;
    bool is_within = within(rule);
    /* a readable word */
    int64_t fp_offset = is_within && rule->fp == FP_SAME ? rule->ra_offset : rule->fp_offset;
    return (packed)rule->kind | (is_within ? RULE_WITHIN : 0) | (packed)rule->cfa << 3 | (packed)rule->fp << 5 |
           ((packed)(rule->cfa_offset / 8) & 0xffffff) << 8 | ((packed)(fp_offset / 8) & 0xffff) << 32 | ((packed)(rule->ra_offset / 8) & 0xffff) << 48;
}

/* First place of the search for an address. The return addresses of 128 bytes of code share a cache
 * line: a program has far more addresses than its first cache has lines, and those of one function
 * are used together. */
ALWAYS_INLINE size_t rule_slot(uintptr_t ip, uint32_t shift)
{
    return ((ip >> 7) * SPREAD) >> (shift + 3) << 3 | (ip >> 4 & 7);
}

/* Only under the lock. */
static void rule_put(struct rule_table *table, uint64_t entry)
{
    size_t mask = ((size_t)1 << (64 - table->shift)) - 1;
    size_t i = rule_slot(entry >> 16, table->shift);
    while (table->entries[i])
        i = (i + 1) & mask;
    store_release(&table->entries[i], entry);
    table->used++;
}

static uint32_t rules_bits(const struct rule_table *table) { return 64 - table->shift; }

/* A table of 2^bits places, more than before, with all entries of the old one. The old one stays: a
   reader may be in it. */
static struct rule_table *rules_grow(uint32_t bits)
{
    struct rule_table *old = rule_table;
    struct rule_table *table = old ? map_private(sizeof *table + (sizeof(uint64_t) << bits), 0) : (struct rule_table *)first_rule_table;
    if (!table)
        return NULL;
    table->shift = 64 - bits;
    for (size_t i = 0; old && i < (size_t)1 << (64 - old->shift); i++)
        if (old->entries[i])
            rule_put(table, old->entries[i]);
    store_release(&rule_table, table);
    /* Readers in the old table find an entry or nothing, and then ask for the lock. Its first page
       tells them its size. */
    if (old && old != (struct rule_table *)first_rule_table && (sizeof *old + (sizeof(uint64_t) << (64 - old->shift))) > 2 * recorder.page)
        sys(SYS_madvise, (long)old + recorder.page, (long)(sizeof(uint64_t) << (64 - old->shift)) & -(long)recorder.page, MADV_DONTNEED, 0, 0, 0);
    return table;
}

/* The table, doubled if half full. */
static struct rule_table *rules_with_room(void)
{
    struct rule_table *table = rule_table;
    if (!table)
        return rules_grow(RULES_BITS_FIRST);
    return table->used < (size_t)1 << (rules_bits(table) - 1) ? table : rules_grow(rules_bits(table) + 1);
}

static void rule_insert(uintptr_t ip, packed rule)
{
    struct rule_table *table = rules_with_room();
    if (!table || ip >> 48)
        return;
    uint32_t index = 0;
    while (index < rule_value_count && rule_values[index] != rule)
        index++;
    if (index == rule_value_count) {
        if (index == RULE_VALUES_MAX)
            return;
        rule_values[index] = rule;
        rule_value_count++;
    }
    rule_put(table, (uint64_t)ip << 16 | index);
}

/* A module was unloaded: rules are found anew. Readers in the table meanwhile find some or none. */
static void rules_forget(void)
{
    struct rule_table *table = rule_table;
    if (!table)
        return;
    for (size_t i = 0; i < (size_t)1 << (64 - table->shift); i++)
        store_relaxed(&table->entries[i], 0);
    table->used = 0;
}

static packed rule_work_out(uintptr_t ip, bool interrupted)
{
    struct rule rule = {.kind = RULE_STOP};
    struct module *module = module_of(ip);
    if (!module) {
        bool sure;
        if (!in_generated_code(ip, &sure))
            return sure ? RULE_UNKNOWN : RULE_UNSURE;
        /* without a vdso, or in an emulator, the return from handlers lies on a page of its own */
        return (ip & 4095) <= 4096 - 16 && is_sigreturn((const uint8_t *)ip) ? RULE_SIGNAL : RULE_FRAME_POINTER;
    }
    if (ip < module->code_start || ip >= module->code_end)
        return RULE_UNKNOWN;
    if (!dwarf_rule(module, interrupted ? ip : ip - 1, &rule))
        return RULE_FRAME_POINTER;
    if (rule.kind == RULE_SIGNAL && (module->code_end - ip < 16 || !is_sigreturn((const uint8_t *)ip)))
        return RULE_STOP;
    if (RA_ON_ENTRY == 0 && interrupted && rule.kind == RULE_STOP && rule.ra_offset == 0 && rule.cfa == CFA_SP) {
        rule.kind = RULE_STEP;
        return (pack(&rule) & ~(packed)7) | RULE_LEAF;
    }
    return pack(&rule);
}

/* Signals blocked from a walk's first new rule to its end: in a new process most rules are new. */
struct blocked {
    uint64_t signals;
    bool are;
};

ALWAYS_INLINE void unblock(const struct blocked *blocked)
{
    if (unlikely(blocked->are))
        restore_signals(&blocked->signals);
}

COLD static packed rule_miss(uintptr_t ip, bool interrupted, struct blocked *blocked)
{
    if (!blocked->are)
        block_signals(&blocked->signals);
    blocked->are = true;
    if (!load_relaxed(&recorder.sandboxed))
        lock(&recorder.modules_lock);
    else if (!try_lock(&recorder.modules_lock))
        return RULE_UNSURE;
    packed rule = rule_work_out(ip, interrupted);
    /* an interrupted place is no return address: one ip can be both, with different rules */
    if (!interrupted && !rule_unknown(rule))
        rule_insert(ip, rule);
    unlock(&recorder.modules_lock);
    return rule;
}

ALWAYS_INLINE packed rule_of(uintptr_t ip, struct blocked *blocked)
{
    struct rule_table *table = load_acquire(&rule_table);
    if (likely(table)) {
        uint32_t shift = table->shift;
        for (size_t i = rule_slot(ip, shift);; i = (i + 1) & (((size_t)1 << (64 - shift)) - 1)) {
            uint64_t entry = load_acquire(&table->entries[i]);
            if (likely(entry >> 16 == ip))
                return rule_values[entry & 0xffff];
            if (!entry)
                break;
        }
    }
    return rule_miss(ip, false, blocked);
}

/* The words that a step outwards read, and their addresses; the verified cache checks them
   later. */
struct outward {
    struct registers at;
    uintptr_t ip_slot, fp_slot;   /* 0: not read from the stack */
    uintptr_t cfa_slot;           /* CFA_AT_FP only */
    const uintptr_t *stopped_at;  /* the word that ended the walk, if any */
};

ALWAYS_INLINE bool on_stack(uintptr_t slot, uintptr_t low, uintptr_t high) { return slot >= low && slot <= high - 8 && slot % 8 == 0; }

/* A return address of 0 ends the stack. */
ALWAYS_INLINE bool ends_at(struct outward *out)
{
    out->stopped_at = (const uintptr_t *)out->ip_slot;
    return false;
}

/* One frame outwards by a RULE_STEP or RULE_FRAME_POINTER, from an sp that is a multiple of 8.
   False: the walk ends here. Reads only between sp and `high`. */
ALWAYS_INLINE bool step_out(packed rule, struct registers at, uintptr_t high, struct outward *out)
{
    uintptr_t cfa, slot;
    out->cfa_slot = 0;
    if (likely(rule & RULE_WITHIN)) {
        cfa = at.sp + (uintptr_t)rule_cfa_offset(rule);
        if (unlikely(cfa > high))
            return false;
        out->at.sp = cfa;
        out->ip_slot = cfa + (uintptr_t)rule_ra_offset(rule);
        out->at.ip = strip(*(const uintptr_t *)out->ip_slot);
        /* without a branch: a processor cannot predict which functions save fp */
        slot = cfa + (uintptr_t)rule_fp_offset(rule);
        uintptr_t saved = -(uintptr_t)(rule_fp(rule) == FP_AT_CFA);
        out->at.fp = at.fp ^ ((at.fp ^ *(const uintptr_t *)slot) & saved);
        out->fp_slot = slot & saved;
        return likely(out->at.ip) || ends_at(out);
    }
    if (unlikely(rule_kind(rule) == RULE_FRAME_POINTER)) {
        /* {caller's fp, return address} at fp, on both architectures */
        if (!on_stack(at.fp, at.sp, high - 8))
            return false;
        out->fp_slot = at.fp;
        out->ip_slot = at.fp + 8;
        out->at.sp = at.fp + 16;
    } else {
        cfa = (rule_cfa(rule) == CFA_SP ? at.sp : at.fp) + (uintptr_t)rule_cfa_offset(rule);
        if (unlikely(rule_cfa(rule) == CFA_AT_FP)) {
            if (!on_stack(cfa, at.sp, high))
                return false;
            out->cfa_slot = cfa;
            cfa = *(const uintptr_t *)cfa;
        }
        slot = cfa + (uintptr_t)rule_ra_offset(rule);
        if (unlikely(cfa <= at.sp || cfa > high || !on_stack(slot, at.sp, high))) {
            out->stopped_at = (const uintptr_t *)out->cfa_slot;
            return false;
        }
        out->at.sp = cfa;
        out->ip_slot = slot;
        unsigned fp = rule_fp(rule);
        slot = (fp == FP_AT_CFA ? cfa : at.fp) + (uintptr_t)rule_fp_offset(rule);
        out->fp_slot = fp == FP_AT_CFA || fp == FP_AT_FP ? slot : 0;
        if (fp == FP_LOST)
            at.fp = 0;
        if (unlikely(out->fp_slot && !on_stack(slot, at.sp, high)))
            return false;
    }
    out->at.ip = strip(*(const uintptr_t *)out->ip_slot);
    out->at.fp = out->fp_slot ? *(const uintptr_t *)out->fp_slot : at.fp;
    return likely(out->at.ip) || ends_at(out);
}

/* Upper end of such a step's reads, judged by the words below `high`. */
static uintptr_t step_end(packed rule, struct registers at, uintptr_t high)
{
    if (rule_kind(rule) == RULE_FRAME_POINTER)
        return at.fp + 16;
    uintptr_t cfa = (rule_cfa(rule) == CFA_SP ? at.sp : at.fp) + (uintptr_t)rule_cfa_offset(rule);
    if (rule_cfa(rule) == CFA_AT_FP) {
        if (!on_stack(cfa, at.sp, high))
            return cfa + 8;
        cfa = *(const uintptr_t *)cfa;
    }
    uintptr_t saved = rule_fp(rule) == FP_AT_FP ? at.fp : cfa;
    uintptr_t fp_end = rule_fp(rule) == FP_AT_FP || rule_fp(rule) == FP_AT_CFA ? saved + (uintptr_t)rule_fp_offset(rule) + 8 : 0;
    uintptr_t ip_end = cfa + (uintptr_t)rule_ra_offset(rule) + 8;
    uintptr_t end = fp_end > ip_end ? fp_end : ip_end;
    return end > cfa ? end : cfa;
}

/* From a handler's return address to the interrupted place; *lr is the interrupted code's return
   address register. */
static bool step_signal(struct registers at, uintptr_t high, struct registers *interrupted, uintptr_t *lr)
{
    if (at.sp % 8 || high < SIGNAL_SP + 16 || at.sp > high - SIGNAL_SP - 16)
        return false;
    const uint8_t *frame = (const uint8_t *)at.sp;
    memcpy(&interrupted->ip, frame + SIGNAL_IP, 8);
    memcpy(&interrupted->sp, frame + SIGNAL_SP, 8);
    memcpy(&interrupted->fp, frame + SIGNAL_FP, 8);
    memcpy(lr, frame + SIGNAL_FP + 8, 8);
    return interrupted->sp % 8 == 0;
}
