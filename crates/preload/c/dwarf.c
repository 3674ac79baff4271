/* From a program counter to the rule that unwinds its frame, out of .eh_frame (DWARF 5, 6.4; Linux
 * Standard Base 5.0, 10.6).
 *
 * Compilers use a small part of DWARF, and only this part is supported: the frame's address as sp
 * or fp plus a constant, fp and the return address at a constant from the frame's address, and the
 * two expressions that occur (procedure linkage table; realigned stack). Anything else gives no
 * rule: a stack cut short is better than a wrong one. Every read is bounded by the segment. */
#include "arch.h"

/* The step from a frame to its caller's; unwind.c packs it. */
enum cfa_kind { CFA_SP, CFA_FP, CFA_AT_FP /* the word at fp + offset */ };
enum fp_kind { FP_SAME, FP_AT_CFA, FP_AT_FP, FP_LOST };
enum rule_kind { RULE_STOP, RULE_STEP, RULE_OUTERMOST, RULE_SIGNAL, RULE_FRAME_POINTER };

struct rule {
    enum rule_kind kind;
    enum cfa_kind cfa;
    enum fp_kind fp;
    int64_t cfa_offset, fp_offset, ra_offset;
};

struct cursor {
    const uint8_t *at, *end;
    bool bad;
};

struct entry {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_register;
    uint8_t encoding;
    bool augmented, signal;
    struct cursor initial;
};

/* The places of the saved registers at one program counter. */
struct row {
    struct rule rule;
    bool ra_undefined, ra_same, bad;
};

#define REMEMBER_MAX 8

static uint64_t read_bytes(struct cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    if (c->bad || (size_t)(c->end - c->at) < bytes) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->at, bytes);
    c->at += bytes;
    return value;
}

static uint64_t read_uleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = read_bytes(c, 1);
        if (shift < 64)
            value |= (byte & 127) << shift;
        if (c->bad || !(byte & 128))
            return value;
    }
}

static int64_t read_sleb(struct cursor *c)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = read_bytes(c, 1);
        if (shift < 64)
            value |= (byte & 127) << shift;
        shift += 7;
    } while (!c->bad && byte & 128);
    if (byte & 64 && shift < 64)
        value |= ~0ull << shift;
    return (int64_t)value;
}

/* A pointer in one of the DW_EH_PE encodings; data-relative pointers are relative to `data`. */
static uintptr_t read_encoded(struct cursor *c, uint8_t encoding, uintptr_t data)
{
    uintptr_t here = (uintptr_t)c->at, value;
    switch (encoding & 15) {
    case 0: value = read_bytes(c, 8); break;
    case 1: value = read_uleb(c); break;
    case 2: value = read_bytes(c, 2); break;
    case 3: value = read_bytes(c, 4); break;
    case 4: value = read_bytes(c, 8); break;
    case 9: value = (uintptr_t)read_sleb(c); break;
    case 10: value = (uintptr_t)(int16_t)read_bytes(c, 2); break;
    case 11: value = (uintptr_t)(int32_t)read_bytes(c, 4); break;
    case 12: value = read_bytes(c, 8); break;
    default: c->bad = true; return 0;
    }
    switch (encoding & 0x70) {
    case 0: return value;
    case 0x10: return value + here;
    case 0x30: return value + data;
    default: c->bad = true; return 0;
    }
}

static struct cursor block(struct cursor *c, uint64_t bytes)
{
    struct cursor inner = {c->at, c->at, c->bad};
    if (c->bad || (uint64_t)(c->end - c->at) < bytes) {
        c->bad = inner.bad = true;
        return inner;
    }
    inner.end = c->at += bytes;
    return inner;
}

/* Reads an entry's length field; returns a cursor over the entry. */
static struct cursor open_entry(struct cursor c)
{
    uint64_t bytes = read_bytes(&c, 4);
    if (bytes == 0 || bytes == 0xffffffff) /* the 64-bit form is not used in .eh_frame */
        c.bad = true;
    return block(&c, bytes);
}

static bool read_cie(struct cursor c, struct entry *cie)
{
    c = open_entry(c);
    if (read_bytes(&c, 4) != 0)
        return false;
    uint64_t version = read_bytes(&c, 1);
    const uint8_t *augmentation = c.at;
    while (read_bytes(&c, 1))
        ;
    cie->code_align = read_uleb(&c);
    cie->data_align = read_sleb(&c);
    cie->ra_register = version == 1 ? read_bytes(&c, 1) : read_uleb(&c);
    cie->encoding = 0;
    cie->augmented = cie->signal = false;
    if (c.bad || (version != 1 && version != 3))
        return false;
    if (*augmentation == 'z') {
        cie->augmented = true;
        uint64_t bytes = read_uleb(&c);
        struct cursor data = block(&c, bytes);
        for (const uint8_t *a = augmentation + 1; *a; a++) {
            if (*a == 'R')
                cie->encoding = (uint8_t)read_bytes(&data, 1);
            else if (*a == 'L')
                read_bytes(&data, 1);
            else if (*a == 'P') {
                uint8_t encoding = (uint8_t)read_bytes(&data, 1);
                read_encoded(&data, encoding & 15, 0);
            } else if (*a == 'S')
                cie->signal = true;
            else if (*a != 'B') /* 'B': return addresses are signed with the other key */
                return false;
        }
        if (data.bad)
            return false;
    } else if (*augmentation) {
        return false;
    }
    cie->initial = c;
    return !c.bad;
}

/* The frame's address as one of the two expressions that occur. */
static void cfa_expression(struct cursor e, uintptr_t pc, struct row *row)
{
    static const uint8_t linkage[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
    size_t bytes = (size_t)(e.end - e.at);
    if (e.bad) {
        row->bad = true;
    } else if (bytes == sizeof linkage && !memcmp(e.at, linkage, bytes) && DWARF_FP == 6) {
        row->rule.cfa = CFA_SP; /* rsp + 8 + ((rip & 15) >= 11) * 8 */
        row->rule.cfa_offset = 8 + ((pc & 15) >= 11 ? 8 : 0);
    } else if (read_bytes(&e, 1) == 0x70 + DWARF_FP) {
        row->rule.cfa = CFA_AT_FP; /* the word at fp + n */
        row->rule.cfa_offset = read_sleb(&e);
        if (read_bytes(&e, 1) != 0x06 || e.at != e.end)
            row->bad = true;
    } else {
        row->bad = true;
    }
}

static void save_at_cfa(struct row *row, uint64_t reg, int64_t offset, uint64_t ra_register)
{
    if (reg == DWARF_FP) {
        row->rule.fp = FP_AT_CFA;
        row->rule.fp_offset = offset;
    }
    if (reg == ra_register) {
        row->rule.ra_offset = offset;
        row->ra_undefined = row->ra_same = false;
    }
}

/* A register saved at an expression: fp at fp + n, as in a realigned stack. Other registers do not
   matter. */
static void save_at_expression(struct row *row, uint64_t reg, struct cursor e, uint64_t ra_register)
{
    if (reg == DWARF_FP) {
        bool of_fp = read_bytes(&e, 1) == 0x70 + DWARF_FP;
        row->rule.fp = FP_AT_FP;
        row->rule.fp_offset = read_sleb(&e);
        if (!of_fp || e.bad || e.at != e.end)
            row->rule.fp = FP_LOST;
    }
    if (reg == ra_register)
        row->bad = true;
}

static void define_cfa(struct row *row, uint64_t reg)
{
    /* a later definition replaces an unsupported expression */
    row->bad &= reg != DWARF_SP && reg != DWARF_FP;
    if (reg == DWARF_SP)
        row->rule.cfa = CFA_SP;
    else if (reg == DWARF_FP)
        row->rule.cfa = CFA_FP;
    else
        row->bad = true;
}

static void restore(struct row *row, const struct row *initial, uint64_t reg, uint64_t ra_register)
{
    if (reg == DWARF_FP) {
        row->rule.fp = initial->rule.fp;
        row->rule.fp_offset = initial->rule.fp_offset;
    }
    if (reg == ra_register) {
        row->rule.ra_offset = initial->rule.ra_offset;
        row->ra_undefined = initial->ra_undefined;
        row->ra_same = initial->ra_same;
    }
}

/* Runs call frame instructions from the row in *row to the row of `pc`. False: an unsupported
   instruction. */
static bool run(struct cursor c, const struct entry *cie, uintptr_t location, uintptr_t pc, struct row *row, const struct row *initial)
{
    struct row remembered[REMEMBER_MAX];
    unsigned depth = 0;
    const uint64_t ra = cie->ra_register;
    while (c.at < c.end && !c.bad) {
        uint64_t op = read_bytes(&c, 1), low = op & 63, reg;
        int64_t offset;
        uint64_t advance = 0;
        switch (op >> 6) {
        case 1: advance = low * cie->code_align; break;
        case 2: offset = (int64_t)read_uleb(&c) * cie->data_align; save_at_cfa(row, low, offset, ra); continue;
        case 3: restore(row, initial, low, ra); continue;
        default:
            switch (low) {
            case 0x00: break;
            case 0x01: location = read_encoded(&c, cie->encoding, 0); if (location > pc) return !c.bad; break;
            case 0x02: advance = read_bytes(&c, 1) * cie->code_align; break;
            case 0x03: advance = read_bytes(&c, 2) * cie->code_align; break;
            case 0x04: advance = read_bytes(&c, 4) * cie->code_align; break;
            case 0x05: reg = read_uleb(&c); offset = (int64_t)read_uleb(&c) * cie->data_align; save_at_cfa(row, reg, offset, ra); break;
            case 0x06: restore(row, initial, read_uleb(&c), ra); break;
            case 0x07: reg = read_uleb(&c); if (reg == ra) row->ra_undefined = true; if (reg == DWARF_FP) row->rule.fp = FP_LOST; break;
            case 0x08: reg = read_uleb(&c); if (reg == ra) row->ra_same = true; if (reg == DWARF_FP) row->rule.fp = FP_SAME; break;
            case 0x09: reg = read_uleb(&c); read_uleb(&c); if (reg == ra) return false; if (reg == DWARF_FP) row->rule.fp = FP_LOST; break;
            case 0x0a: if (depth == REMEMBER_MAX) return false; remembered[depth++] = *row; break;
            case 0x0b: if (!depth) return false; *row = remembered[--depth]; break;
            case 0x0c: define_cfa(row, read_uleb(&c)); row->rule.cfa_offset = (int64_t)read_uleb(&c); break;
            case 0x0d: define_cfa(row, read_uleb(&c)); break;
            case 0x0e: row->rule.cfa_offset = (int64_t)read_uleb(&c); break;
            case 0x0f: { uint64_t bytes = read_uleb(&c); row->bad = false; cfa_expression(block(&c, bytes), pc, row); break; }
            case 0x10: { reg = read_uleb(&c); uint64_t bytes = read_uleb(&c); save_at_expression(row, reg, block(&c, bytes), ra); break; }
            case 0x11: reg = read_uleb(&c); offset = read_sleb(&c) * cie->data_align; save_at_cfa(row, reg, offset, ra); break;
            case 0x12: define_cfa(row, read_uleb(&c)); row->rule.cfa_offset = read_sleb(&c) * cie->data_align; break;
            case 0x13: row->rule.cfa_offset = read_sleb(&c) * cie->data_align; break;
            case 0x14: case 0x15: reg = read_uleb(&c); read_uleb(&c); if (reg == ra) return false; if (reg == DWARF_FP) row->rule.fp = FP_LOST; break;
            case 0x16: { reg = read_uleb(&c); uint64_t bytes = read_uleb(&c); block(&c, bytes); if (reg == ra) return false; if (reg == DWARF_FP) row->rule.fp = FP_LOST; break; }
            /* aarch64: toggles signing of the return address; strip() handles both */
            case 0x2d: break;
            case 0x2e: read_uleb(&c); break;
            default: return false;
            }
        }
        location += advance;
        if (location > pc)
            return !c.bad;
    }
    return !c.bad;
}

/* The frame description that may cover pc, by binary search in .eh_frame_hdr; NULL: none. */
static const uint8_t *find_fde(const struct module *module, uintptr_t pc)
{
    struct cursor c = {module->hdr, (const uint8_t *)module->hdr_segment.end, false};
    uintptr_t data = (uintptr_t)module->hdr;
    uint64_t version = read_bytes(&c, 1);
    uint8_t frame_encoding = (uint8_t)read_bytes(&c, 1), count_encoding = (uint8_t)read_bytes(&c, 1), table_encoding = (uint8_t)read_bytes(&c, 1);
    read_encoded(&c, frame_encoding, data);
    uint64_t count = read_encoded(&c, count_encoding, data);
    if (c.bad || version != 1 || table_encoding != 0x3b || count == 0 || count > (uint64_t)(c.end - c.at) / 8)
        return NULL;
    const int32_t *table = (const int32_t *)c.at; /* pairs (first pc, description), both relative to the header */
    uint64_t low = 0, high = count;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        if (data + (intptr_t)table[2 * middle] <= pc)
            low = middle;
        else
            high = middle;
    }
    if (data + (intptr_t)table[2 * low] > pc)
        return NULL;
    uintptr_t fde = data + (intptr_t)table[2 * low + 1];
    return fde >= module->hdr_segment.start && fde < module->hdr_segment.end ? (const uint8_t *)fde : NULL;
}

/* The rule for `pc`; false if no description covers `pc`. An unsupported description gives
   RULE_STOP. */
static bool dwarf_rule(const struct module *module, uintptr_t pc, struct rule *rule)
{
    const uint8_t *end = (const uint8_t *)module->hdr_segment.end, *fde = module->hdr ? find_fde(module, pc) : NULL;
    if (!fde)
        return false;
    struct cursor c = open_entry((struct cursor){fde, end, false});
    const uint8_t *here = c.at;
    uint64_t back = read_bytes(&c, 4);
    struct entry cie;
    if (c.bad || !back || back > (uint64_t)(here - (const uint8_t *)module->hdr_segment.start) ||
        !read_cie((struct cursor){here - back, end, false}, &cie))
        return false;
    uintptr_t start = read_encoded(&c, cie.encoding, (uintptr_t)module->hdr), bytes = read_encoded(&c, cie.encoding & 15, 0);
    if (c.bad || pc < start || pc - start >= bytes)
        return false;
    if (cie.augmented) {
        uint64_t skip = read_uleb(&c);
        block(&c, skip);
    }
    struct row row = {.rule = {.kind = RULE_STEP, .ra_offset = RA_ON_ENTRY}, .ra_same = RA_ON_ENTRY == 0};
    const struct row none = row;
    bool understood = run(cie.initial, &cie, 0, UINTPTR_MAX, &row, &none);
    const struct row initial = row;
    understood = understood && run(c, &cie, start, pc, &row, &initial);
    *rule = row.rule;
    if (cie.signal)
        rule->kind = RULE_SIGNAL;
    else if (understood && row.ra_undefined)
        rule->kind = RULE_OUTERMOST;
    else if (!understood || row.bad || row.ra_same)
        rule->kind = RULE_STOP;
    return true;
}
