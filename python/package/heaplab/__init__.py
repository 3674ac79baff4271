"""heaplab: a laboratory for memory managers. `heaplab.snapshot` writes the heap of this process as a heap snapshot."""
