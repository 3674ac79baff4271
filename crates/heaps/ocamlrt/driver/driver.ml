(* Runs a workload in the real runtime: births and deaths in numbered slots, and requested
   collections.

   The slots are one array, allocated directly in the major heap. Nothing else is allocated here,
   and the standard library is not linked, so that the runtime's decisions depend on the workload
   alone. A step is (slot, words): words is 0 for a death; a slot below 0 asks for a collection. *)

type value

external immediate : int -> value = "%identity"
external equal : int -> int -> bool = "%equal"
external at_least : int -> int -> bool = "%greaterequal"
external make : int -> value -> value array = "caml_make_vect"
external set : value array -> int -> value -> unit = "%array_unsafe_set"
external new_block : int -> int -> value = "caml_obj_block"
external full_major : unit -> unit = "caml_gc_full_major"
external minor : unit -> unit = "caml_gc_minor"
external compact : unit -> unit = "caml_gc_compaction"

(* In stubs.c; they allocate nothing. *)
external slots : unit -> int = "heaplab_slots" [@@noalloc]
external next_slot : unit -> int = "heaplab_next_slot" [@@noalloc]
external next_words : unit -> int = "heaplab_next_words" [@@noalloc]
external report : value array -> unit = "heaplab_report" [@@noalloc]
external usage : unit -> unit = "heaplab_usage" [@@noalloc]

(* A function that is no field of the module, because fields are roots that the pacing counts; and one that does not
   capture the slots, because a closure would be in the minor heap. *)
let () =
  let rec run slots =
    let slot = next_slot () in
    if at_least slot 0 then begin
      let words = next_words () in
      set slots slot (if equal words 0 then immediate 0 else new_block 0 words);
      run slots
    end
    else if equal slot (-4) then begin report slots; usage () end
    else begin
      (if equal slot (-1) then full_major () else if equal slot (-2) then minor () else compact ());
      report slots;
      run slots
    end
  in
  run (make (slots ()) (immediate 0))
