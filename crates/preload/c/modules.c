/* The file that a return address lies in, found at the first such address.
 *
 * Asks _dl_find_object (glibc 2.35), which takes no lock, else reads /proc/self/maps.
 * dl_iterate_phdr would deadlock: it takes the loader's lock, and the lock's owner may wait for the
 * caller of a malloc. Looks only into modules of addresses on a stack, and into the allocator's:
 * these cannot be unloaded meanwhile. Everything here runs under recorder.modules_lock with signals
 * blocked. */
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include "arch.h"

#define MODULES_MAX 2048
#define GENERATED_MAX 64
#define GENERATED_RETRY_TICKS (1ull << 26)

static struct module modules[MODULES_MAX];
static uint32_t module_slots;
static uint32_t module_numbers[MODULES_MAX]; /* hl_module.index of the slot */
static uint32_t modules_seen;
static struct range generated[GENERATED_MAX]; /* executable memory outside of files */
static uint32_t generated_count;
static uint64_t generated_retry;

struct found_object {
    unsigned long long flags;
    void *start, *end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};
extern int find_object(void *address, struct found_object *found) __asm__("_dl_find_object") __attribute__((weak));

struct mapped_file {
    uintptr_t ip;
    struct module *module;
    uint64_t inode;
    bool found;
};

/* Follows runs of mappings of one file; stops at the run with the address. */
static bool visit_for_module(const struct mapping *mapping, void *context)
{
    struct mapped_file *search = context;
    bool same = search->module->end && search->inode == mapping->inode && mapping->offset != 0;
    bool elf = mapping->inode || mapping->name[0] == '[';
    if (!same) {
        if (search->found)
            return false;
        search->inode = mapping->inode;
        search->module->start = mapping->start;
        append_text(search->module->path, 0, sizeof search->module->path, mapping->name);
    }
    search->module->end = mapping->end;
    if (search->ip >= mapping->start && search->ip < mapping->end) {
        if (!elf || !mapping->executable)
            return false;
        search->found = true;
    }
    return true;
}

/* Start and end of the loaded segments. */
static struct range span_of(const Elf64_Phdr *headers, uint64_t count, uintptr_t bias)
{
    struct range span = {UINTPTR_MAX, 0};
    for (uint64_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_LOAD)
            continue;
        uintptr_t start = bias + headers[i].p_vaddr, end = start + headers[i].p_memsz;
        span.start = start < span.start ? start & -(uintptr_t)recorder.page : span.start;
        span.end = end > span.end ? end : span.end;
    }
    return span;
}

/* In a program with gaps between its segments (such as Node) _dl_find_object knows each segment as
   a separate object. */
static void take_whole_program(struct module *module, const struct link_map *map)
{
    if (!map || !map->l_name || map->l_name[0])
        return;
    struct range span = span_of((const Elf64_Phdr *)getauxval(AT_PHDR), getauxval(AT_PHNUM), map->l_addr);
    if (span.start <= module->start && module->end <= span.end) {
        module->start = span.start;
        module->end = span.end;
    }
}

static bool locate(uintptr_t ip, struct module *module)
{
    if (find_object) {
        struct found_object found;
        if (find_object((void *)ip, &found))
            return false;
        module->start = (uintptr_t)found.start;
        module->end = (uintptr_t)found.end;
        module->link_map = found.link_map;
        take_whole_program(module, found.link_map);
        append_text(module->path, 0, sizeof module->path, found.link_map ? found.link_map->l_name : "");
        return true;
    }
    struct mapped_file search = {.ip = ip, .module = module};
    module->end = 0;
    return visit_mappings(visit_for_module, &search) && search.found;
}

static void find_build_id(struct module *module, const uint8_t *note, const uint8_t *end)
{
    while (end - note >= 12) {
        const uint32_t *word = (const uint32_t *)note;
        uint64_t name = (word[0] + 3ull) & ~3ull, description = (word[1] + 3ull) & ~3ull;
        if (name + description + 12 > (uint64_t)(end - note))
            return;
        if (word[2] == NT_GNU_BUILD_ID && word[0] == 4 && word[1] <= sizeof module->build_id) {
            memcpy(module->build_id, note + 12 + name, word[1]);
            module->build_id_bytes = word[1];
            return;
        }
        note += 12 + name + description;
    }
}

/* Reads the program headers at the start of the first segment. Without them the module has no
   unwind rules. */
static void inspect(struct module *module)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)module->start;
    uint64_t bytes = module->end - module->start;
    if (bytes < sizeof *elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) || elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phnum > 64 ||
        elf->e_phoff > 4096 || elf->e_phoff + elf->e_phnum * sizeof(Elf64_Phdr) > bytes)
        return;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)(module->start + elf->e_phoff);
    bool first = true;
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (h->p_type != PT_LOAD)
            continue;
        if (first)
            module->bias = module->start - (h->p_vaddr & ~(uint64_t)(recorder.page - 1));
        first = false;
        uintptr_t start = h->p_vaddr + module->bias;
        if (h->p_flags & PF_X) {
            module->code_start = module->code_start ? module->code_start : start;
            module->code_end = start + h->p_memsz;
        }
    }
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (h->p_type != PT_GNU_EH_FRAME && h->p_type != PT_NOTE)
            continue;
        for (unsigned k = 0; k < elf->e_phnum; k++) {
            const Elf64_Phdr *load = &headers[k];
            if (load->p_type != PT_LOAD || !(load->p_flags & PF_R) || h->p_vaddr < load->p_vaddr || h->p_filesz > load->p_filesz ||
                h->p_vaddr - load->p_vaddr > load->p_filesz - h->p_filesz)
                continue;
            const uint8_t *at = (const uint8_t *)(h->p_vaddr + module->bias);
            if (h->p_type == PT_NOTE && !module->build_id_bytes) {
                find_build_id(module, at, at + h->p_filesz);
            } else if (h->p_type == PT_GNU_EH_FRAME) {
                module->hdr = at;
                module->hdr_segment.start = load->p_vaddr + module->bias;
                module->hdr_segment.end = module->hdr_segment.start + load->p_filesz;
            }
        }
    }
}

static uint32_t text_length(const char *text)
{
    uint32_t bytes = 0;
    while (text[bytes])
        bytes++;
    return bytes;
}

static void module_record(uint32_t slot)
{
    const struct module *module = &modules[slot];
    struct hl_module record = {.head = {.kind = HL_RECORD_MODULE},
                               .bias = module->bias,
                               .start = module->start,
                               .end = module->end,
                               .index = module_numbers[slot],
                               .build_id_bytes = module->build_id_bytes,
                               .path_bytes = text_length(module->path)};
    record_append(&record.head, &record, sizeof record, module->build_id, record.build_id_bytes, module->path, record.path_bytes);
}

/* In a forked child: writes the known modules into the child's new file. */
static void modules_record_again(void)
{
    for (uint32_t i = 0; i < module_slots; i++)
        if (modules[i].live)
            module_record(i);
}

static void module_unloaded(uint32_t slot)
{
    struct hl_unloaded record = {.head = {.kind = HL_RECORD_MODULE_UNLOADED}, .index = module_numbers[slot]};
    modules[slot].live = false;
    rules_forget();
    record_append(&record.head, &record, sizeof record, "", 0, "", 0);
    __atomic_fetch_add(&recorder.generation, 1, __ATOMIC_RELEASE);
}

static bool still_there(const struct module *module)
{
    struct module now;
    return locate(module->code_start ? module->code_start : module->start, &now) && now.start == module->start && now.end == module->end &&
           now.link_map == module->link_map;
}

static void modules_after_unload(void)
{
    for (uint32_t i = 0; i < module_slots; i++)
        if (modules[i].live && !still_there(&modules[i]))
            module_unloaded(i);
}

static struct module *module_of(uintptr_t ip)
{
    static struct module found; /* too large for small stacks; guarded by the lock */
    memset(&found, 0, offsetof(struct module, path));
    found.build_id_bytes = 0;
    if (!locate(ip, &found))
        return NULL;
    uint32_t slot = UINT32_MAX;
    for (uint32_t i = 0; i < module_slots; i++) {
        struct module *known = &modules[i];
        if (known->live && known->start == found.start && known->end == found.end && known->link_map == found.link_map)
            return known;
        /* unloaded without dlclose (libc itself does so) */
        if (known->live && known->start < found.end && found.start < known->end)
            module_unloaded(i);
        if (!known->live && slot == UINT32_MAX)
            slot = i;
    }
    if (slot == UINT32_MAX) {
        if (module_slots == MODULES_MAX)
            return NULL;
        slot = module_slots++;
    }
    if (!found.path[0]) {
        identity.executable[identity.executable_bytes] = 0;
        append_text(found.path, 0, sizeof found.path, identity.executable);
    }
    inspect(&found);
    found.live = true;
    modules[slot] = found;
    module_numbers[slot] = modules_seen++;
    module_record(slot);
    if (unlikely(recorder.control->flags & HL_CONTROL_PYTHON))
        python_look_at(&modules[slot]);
    return &modules[slot];
}

static bool visit_for_generated(const struct mapping *mapping, void *context)
{
    (void)context;
    if (mapping->executable && mapping->readable && !mapping->inode && mapping->name[0] != '[' && generated_count < GENERATED_MAX) {
        struct range *last = generated_count ? &generated[generated_count - 1] : NULL;
        if (last && last->end == mapping->start)
            last->end = mapping->end;
        else
            generated[generated_count++] = (struct range){mapping->start, mapping->end};
    }
    return true;
}

/* Whether an address outside of all modules is code (made by a JIT compiler). Looks at the mappings
 * at most some 30 times a second, because random values ask too. *sure: a "no" comes from the
 * current mappings. */
static bool in_generated_code(uintptr_t ip, bool *sure)
{
    *sure = true;
    for (int look = 0; look < 2; look++) {
        for (uint32_t i = 0; i < generated_count; i++)
            if (ip >= generated[i].start && ip < generated[i].end)
                return true;
        if (look)
            return false;
        if (counter() < generated_retry) {
            *sure = false;
            return false;
        }
        generated_retry = counter() + GENERATED_RETRY_TICKS;
        generated_count = 0;
        visit_mappings(visit_for_generated, NULL);
    }
    return false;
}
