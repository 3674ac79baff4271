/* One program for several builds of it: PARSE is how parse_header is built. It keeps 1,000 blocks. */
#include <stdlib.h>

char *volatile kept[1000];

PARSE static char *parse_header(int number) {
    char *block = malloc(100 + (unsigned)number % 7);
    block[0] = (char)number;
    return block;
}

__attribute__((noinline)) static int load(int number) {
    kept[number] = parse_header(number);
    return kept[number][0];
}

int main(int arguments, char **argument) {
    int sum = arguments > 1 ? argument[1][0] : 0;
    for (int number = 0; number < 1000; number += 1)
        sum += load(number);
    return sum == -1;
}
