/* A library to load and unload; built twice, with different frames. */
#include <stdlib.h>
#include <string.h>
#ifndef ROOM
#define ROOM 40
#endif
__attribute__((noinline)) static int inner(void (*take)(void), int n)
{
    volatile char room[ROOM];
    memset((char *)room, n, sizeof room);
    take();
    return room[n] + 1;
}
int call(void (*take)(void))
{
    volatile char room[ROOM / 2];
    room[0] = (char)inner(take, 3);
    return room[0] + inner(take, 2);
}
