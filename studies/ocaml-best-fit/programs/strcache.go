// A bounded cache of strings of mixed sizes under random replacement: strcache.ml in Go.
package main

import (
	"fmt"
	"os"
	"strconv"
)

var state uint64 = 42

func below(bound uint64) int {
	state ^= state << 13
	state ^= state >> 7
	state ^= state << 17
	return int(state % bound)
}

func size() int {
	switch kind := below(100); {
	case kind < 50:
		return 8 + below(56)
	case kind < 85:
		return 64 + below(448)
	case kind < 98:
		return 512 + below(3584)
	}
	return 4096 + below(28672)
}

func main() {
	slots, _ := strconv.Atoi(os.Args[1])
	steps, _ := strconv.Atoi(os.Args[2])
	cache := make([][]byte, slots)
	for step := 0; step < steps; step++ {
		text := make([]byte, size())
		for at := range text {
			text[at] = 'x'
		}
		cache[below(uint64(slots))] = text
	}
	sum := 0
	for _, text := range cache {
		sum += len(text)
	}
	fmt.Println(sum)
}
