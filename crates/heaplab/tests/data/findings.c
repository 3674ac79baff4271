// A program with a finding that moves, one that goes and one that comes, as it is built: GROW is the name of the
// function that grows a text in small steps, WORDS and PAGES say whether the other two exist.
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline))

GROWING char *GROW(char *text, size_t length) {
    text = realloc(text, length);
    memset(text + length - 64, 'x', 64);
    return text;
}

APART char *load(void) {
    char *text = NULL;
    for (size_t line = 1; line <= 8000; line++) {
        text = GROW(text, line * 64);
    }
    return text;
}

#ifdef WORDS
APART char *copy_word(int word) {
    char *copy = malloc(40);
    memset(copy, word, 40);
    return copy;
}

APART void split(void) {
    for (int word = 0; word < 200000; word++) {
        free(copy_word(word));
    }
}
#endif

#ifdef PAGES
APART void *new_page(void) {
    return memset(malloc(4368), 1, 4368);
}

APART void open_pages(void **pages) {
    for (int page = 0; page < 400; page++) {
        pages[page] = new_page();
    }
}
#endif

int main(void) {
    char *text = load();
    int sum = text[63];
#ifdef WORDS
    split();
#endif
#ifdef PAGES
    static void *pages[400];
    open_pages(pages);
    for (int page = 0; page < 400; page++) {
        sum += ((char *)pages[page])[0];
        free(pages[page]);
    }
#endif
    free(text);
    return sum == 0;
}
