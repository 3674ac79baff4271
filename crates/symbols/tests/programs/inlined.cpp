// Functions inlined two deep, a template, a static function, an exported one, and assembler without
// a size.
#include <cstdlib>
#include <cstring>

namespace shop {

struct Item {
    char *name;
    __attribute__((noinline)) explicit Item(const char *text);
    inline __attribute__((always_inline)) void rename(const char *text) {
        std::free(name);
        name = copy(text);
    }
    static inline __attribute__((always_inline)) char *copy(const char *text) {
        std::size_t bytes = std::strlen(text) + 1;
        return static_cast<char *>(std::memcpy(std::malloc(bytes), text, bytes));
    }
};

Item::Item(const char *text) : name(copy(text)) {}

template <typename T>
__attribute__((noinline)) T *many(int count) {
    return static_cast<T *>(std::calloc(count, sizeof(T)));
}

}  // namespace shop

static __attribute__((noinline)) int hidden(int count) {
    shop::Item item("first");
    for (int i = 0; i < count; i++) {
        item.rename("second");
    }
    int result = item.name[0];
    std::free(item.name);
    return result;
}

extern "C" __attribute__((noinline, visibility("default"))) int exported(int count) {
    long *numbers = shop::many<long>(count);
    int result = hidden(count) + static_cast<int>(numbers[0]);
    std::free(numbers);
    return result;
}

asm(".text\n.globl bare\nbare:\n  nop\n  nop\n  ret\n");

int main(int argc, char **) { return exported(argc) == 0; }
