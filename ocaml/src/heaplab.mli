(** Records every block of the OCaml heap for heaplab: births, promotions and deaths, by [Gc.Memprof] at rate 1.

    OCaml 4.11 to 4.14, and from 5.3 on for the domain that begins; 5.0 to 5.2 have no [Gc.Memprof]. Linking [heaplab.auto] is enough: [heaplab record --ocaml -- ./program] then names the file.
    The program's threads are recorded; forks of it are not. *)

val start_if_asked : unit -> unit
(** Records into the file that the variable [HEAPLAB_OCAML] names, to the program's end. Nothing where there is none, or
    where that file exists. *)

val start : ?granularity_words:int -> string -> unit
(** Records into this file, to the program's end or to {!stop}. With [granularity_words], a full collection is forced
    whenever so many words were allocated, so that no death is noticed later than that.
    @raise Sys_error where the file cannot be written.
    @raise Invalid_argument where a recording is under way. *)

val stop : unit -> unit
(** Ends the recording. *)
