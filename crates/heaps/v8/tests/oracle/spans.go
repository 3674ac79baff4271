// Runs a workload in Go's heap: pairs of int32 on standard input, a slot and the bytes of its new
// object; 0 bytes: the slot's object dies; slot -1: a collection, after which a line has the bytes
// of spans with objects and the bytes of cells with objects, less those before the workload.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
)

var slots []*byte

func state() (uint64, uint64) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse, stats.HeapAlloc
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil || len(input) < 4 {
		panic("no workload")
	}
	slots = make([]*byte, binary.LittleEndian.Uint32(input))
	steps := make([]int32, (len(input)-4)/4)
	for at := range steps {
		steps[at] = int32(binary.LittleEndian.Uint32(input[4+at*4:]))
	}
	results := make([]uint64, 0, 4096)
	runtime.GC()
	runtime.GC()
	inuse, alloc := state()
	for at := 0; at < len(steps); at += 2 {
		slot, bytes := steps[at], steps[at+1]
		if slot < 0 {
			runtime.GC()
			spans, cells := state()
			results = append(results, spans-inuse, cells-alloc)
		} else if bytes == 0 {
			slots[slot] = nil
		} else {
			slots[slot] = &make([]byte, bytes)[0]
		}
	}
	runtime.KeepAlive(input)
	runtime.KeepAlive(steps)
	for at := 0; at < len(results); at += 2 {
		fmt.Println(results[at], results[at+1])
	}
}
