// new and delete of every kind, and a caught bad_alloc.
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>

struct alignas(128) Wide {
    char bytes[1280];
};

int main()
{
    int *volatile one = reinterpret_cast<int *>(new char[70001]);
    delete[] reinterpret_cast<char *>(const_cast<int *>(one));
    auto *volatile text = new std::string(70002, 'x');
    delete text;
    auto *volatile wide = new Wide;
    delete wide;
    volatile std::size_t huge = SIZE_MAX / 4;
    try {
        one = static_cast<int *>(::operator new(huge));
        return 1;
    } catch (const std::bad_alloc &) {
    }
    if (::operator new(huge, std::nothrow))
        return 2;
    char *volatile after = new char[70010];
    delete[] after;
    std::puts("caught");
    return 0;
}
