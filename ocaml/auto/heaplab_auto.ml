let () = Heaplab.start_if_asked ()
