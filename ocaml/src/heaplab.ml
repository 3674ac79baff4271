(* The stream is described in docs/recording-ocaml.md. *)

let variable = "HEAPLAB_OCAML"
let magic = "HEAPLAB-OCAML-1\n"

(* One buffer, in the major heap from the start: writing an event allocates nothing. *)
let capacity = 1 lsl 16
let longest = 64
let buffer = Bytes.create capacity
let used = ref 0
let channel = ref stdout
let births = ref 0
let active = ref false

let flush_buffer () =
  output !channel buffer 0 !used;
  used := 0

let rec number n =
  if n >= 0 && n < 128 then begin
    Bytes.unsafe_set buffer !used (Char.unsafe_chr n);
    incr used
  end
  else begin
    Bytes.unsafe_set buffer !used (Char.unsafe_chr (n land 127 lor 128));
    incr used;
    number (n lsr 7)
  end

let event kind n =
  if !used > capacity - longest then flush_buffer ();
  number kind;
  number n

let birth = 0
let born_old = 1
let promoted = 2
let died_young = 3
let died_old = 4
let ended = 5

let source (allocation : Gc.Memprof.allocation) =
  match allocation.source with Normal -> 0 | Marshal -> 1 | Custom -> 2

let born kind allocation =
  let id = !births in
  incr births;
  event (kind lor (source allocation lsl 3)) allocation.Gc.Memprof.size;
  Some id

let tracker : (int, int) Gc.Memprof.tracker =
  {
    alloc_minor = born birth;
    alloc_major = born born_old;
    promote = (fun id -> event promoted (!births - id); Some id);
    dealloc_minor = (fun id -> event died_young (!births - id));
    dealloc_major = (fun id -> event died_old (!births - id));
  }

let collections () =
  let stat = Gc.quick_stat () in
  (stat.minor_collections, stat.major_collections)

let header () =
  output_string !channel magic;
  let control = Gc.get () in
  List.iter number
    [
      Sys.word_size / 8; control.minor_heap_size; control.space_overhead; control.allocation_policy;
      control.major_heap_increment; control.max_overhead;
    ];
  let text text = number (String.length text); String.iter (fun c -> number (Char.code c land 127)) text in
  text Sys.ocaml_version;
  flush_buffer ()

let stop () =
  if !active then begin
    active := false;
    Gc.Memprof.stop ();
    let minor, major = collections () in
    event ended !births;
    number minor;
    number major;
    flush_buffer ();
    close_out !channel
  end

let start file =
  if !active then invalid_arg "Heaplab.start: it has been started";
  channel := open_out_bin file;
  active := true;
  used := 0;
  births := 0;
  header ();
  at_exit stop;
  Gc.Memprof.start ~sampling_rate:1.0 ~callstack_size:0 tracker

let start_if_asked () =
  match Sys.getenv_opt variable with
  | Some file when file <> "" && not !active -> (
      (* A child that inherits the variable would write over its parent's file. *)
      try if not (Sys.file_exists file) then start file
      with Sys_error message -> prerr_endline ("heaplab: cannot record: " ^ message))
  | _ -> ()
