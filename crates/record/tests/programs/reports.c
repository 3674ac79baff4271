/* Reports blocks as crates/reporter does: once, twice, from within, after they were freed. */
#include <stdint.h>
#include <stdlib.h>

extern size_t heaplab_report_block(const void *block, uint32_t flags) __attribute__((weak));
extern void heaplab_report_pass(uint32_t begins) __attribute__((weak));

int main(void)
{
    char *once = malloc(100), *twice = malloc(200), *inside = malloc(300), *never = malloc(400), *gone = malloc(500);
    free(gone);
    heaplab_report_pass(1);
    size_t usable = heaplab_report_block(once, 1);
    heaplab_report_block(twice, 1);
    heaplab_report_block(twice, 1);
    heaplab_report_block(inside + 123, 3);
    heaplab_report_block(gone, 3);
    heaplab_report_block(never, 0);
    heaplab_report_pass(0);
    return usable < 100;
}
