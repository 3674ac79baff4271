(* The stream is described in docs/recording-ocaml.md. Writing an event allocates nothing and has no loop, in which another
   thread could be given its turn: it is whole before another one begins. *)

let variable = "HEAPLAB_OCAML"
let granularity_variable = "HEAPLAB_OCAML_GRANULARITY"
let magic = "HEAPLAB-OCAML-2\n"

external open_file : string -> bool -> int = "heaplab_open"
external write : Bytes.t -> int -> int = "heaplab_write" [@@noalloc]
external close : unit -> unit = "heaplab_close" [@@noalloc]
external now : unit -> int = "heaplab_now" [@@noalloc]
external domain : unit -> int = "heaplab_domain" [@@noalloc]

(* What a killed program loses at most. The buffer is in the major heap from the start. *)
let capacity = 1 lsl 12
let event_longest = 18
let buffer = Bytes.create capacity
let used = ref 0
let births = ref 0
let active = ref false

(* OCaml 5.3 and later: domains run at the same time, and the buffer has one writer, the domain that began. Blocks of the
   others are counted, roughly, because two can count at once. *)
let home = ref 0
let elsewhere = ref 0

(* Words between two forced collections; 0: none are forced. *)
let granularity = ref 0
let words_since = ref 0
let minor_words_before = ref 0.

let byte n =
  Bytes.unsafe_set buffer !used (Char.unsafe_chr (n land 255));
  incr used

(* Seven bits a byte, the lowest first. *)
let number1 n = byte n
let number2 n = if n < 128 then byte n else (byte (n lor 128); number1 (n lsr 7))
let number3 n = if n < 128 then byte n else (byte (n lor 128); number2 (n lsr 7))
let number4 n = if n < 128 then byte n else (byte (n lor 128); number3 (n lsr 7))
let number5 n = if n < 128 then byte n else (byte (n lor 128); number4 (n lsr 7))
let number6 n = if n < 128 then byte n else (byte (n lor 128); number5 (n lsr 7))
let number7 n = if n < 128 then byte n else (byte (n lor 128); number6 (n lsr 7))
let number8 n = if n < 128 then byte n else (byte (n lor 128); number7 (n lsr 7))
let number9 n = if n < 128 then byte n else (byte (n lor 128); number8 (n lsr 7))
let number n = number9 n

let time = 6

(* Ends the recording where the file takes no more, and in a fork of the program. *)
let flush () =
  let failed = write buffer !used in
  used := 0;
  if failed = 0 then begin
    number time;
    number (now ())
  end
  else if !active then begin
    active := false;
    Gc.Memprof.stop ()
  end

let event kind n =
  if !used > capacity - event_longest then flush ();
  number kind;
  number n

let birth = 0
let born_old = 1
let promoted = 2
let died_young = 3
let died_old = 4
let ended = 5
let born_elsewhere = 7

let source (allocation : Gc.Memprof.allocation) =
  match allocation.source with Normal -> 0 | Marshal -> 1 | Custom -> 2

let born_at_home kind (allocation : Gc.Memprof.allocation) =
  let id = !births in
  incr births;
  event (kind lor (source allocation lsl 3)) allocation.size;
  if !granularity > 0 then begin
    words_since := !words_since + allocation.size + 1;
    if !words_since >= !granularity then begin
      words_since := 0;
      (* What it finds dead is told when this callback has returned. *)
      Gc.full_major ()
    end
  end;
  Some id

let born kind allocation =
  if domain () = !home then born_at_home kind allocation
  else begin
    incr elsewhere;
    None
  end

let tracker : (int, int) Gc.Memprof.tracker =
  {
    alloc_minor = born birth;
    alloc_major = born born_old;
    promote = (fun id -> event promoted (!births - id); Some id);
    dealloc_minor = (fun id -> event died_young (!births - id));
    dealloc_major = (fun id -> event died_old (!births - id));
  }

let header () =
  String.iter (fun c -> byte (Char.code c)) magic;
  let control = Gc.get () in
  List.iter number
    [
      Sys.word_size / 8; control.minor_heap_size; control.space_overhead; control.allocation_policy;
      control.major_heap_increment; control.max_overhead; !granularity;
    ];
  number (String.length Sys.ocaml_version);
  String.iter (fun c -> number (Char.code c land 127)) Sys.ocaml_version;
  flush ()

let stop () =
  if !active then begin
    (* A fork of the program is found out here at the latest. *)
    flush ();
    if !active then begin
      active := false;
      Gc.Memprof.stop ();
      let stat = Gc.quick_stat () in
      if !elsewhere > 0 then event born_elsewhere !elsewhere;
      event ended !births;
      number stat.minor_collections;
      number stat.major_collections;
      number (int_of_float (Gc.minor_words () -. !minor_words_before));
      flush ();
      close ()
    end
  end

let registered = ref false

let begin_at ~fresh ~granularity_words file =
  if !active then invalid_arg "Heaplab.start: it has been started";
  match open_file file fresh with
  | 0 ->
      used := 0;
      births := 0;
      home := domain ();
      elsewhere := 0;
      words_since := 0;
      granularity := granularity_words;
      header ();
      if not !registered then at_exit stop;
      registered := true;
      active := true;
      minor_words_before := Gc.minor_words ();
      (* OCaml 5.2 and later return the profile. *)
      (try ignore (Gc.Memprof.start ~sampling_rate:1.0 ~callstack_size:0 tracker)
       with Failure message ->
         active := false;
         close ();
         Sys.remove file;
         let needs = "the recorder needs Gc.Memprof for itself, which OCaml 5.0 to 5.2 do not have" in
         raise (Sys_error (Printf.sprintf "OCaml %s: %s; %s" Sys.ocaml_version message needs)))
  | error -> raise (Sys_error (Printf.sprintf "%s: cannot be made (error %d)" file error))

let start ?(granularity_words = 0) file = begin_at ~fresh:false ~granularity_words file

let start_if_asked () =
  match Sys.getenv_opt variable with
  | Some file when file <> "" && not (!active || Sys.file_exists file) -> (
      let granularity_words =
        match Option.bind (Sys.getenv_opt granularity_variable) int_of_string_opt with
        | Some words when words > 0 -> words
        | _ -> 0
      in
      (* A child that inherits the variable would write over its parent's file. *)
      try begin_at ~fresh:true ~granularity_words file
      with Sys_error message -> prerr_endline ("heaplab: cannot record: " ^ message))
  | _ -> ()
