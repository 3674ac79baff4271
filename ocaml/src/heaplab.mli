(** Records every block of the OCaml heap for heaplab: births, promotions and deaths, by [Gc.Memprof] at rate 1.

    OCaml 4.11 to 4.14. Linking [heaplab.auto] is enough: [heaplab record --ocaml -- ./program] then names the file. *)

val start_if_asked : unit -> unit
(** Records into the file that the variable [HEAPLAB_OCAML] names, to the program's end. Nothing where there is none, or
    where that file exists. *)

val start : string -> unit
(** Records into this file, to the program's end or to {!stop}.
    @raise Sys_error where the file cannot be written.
    @raise Invalid_argument where a recording is under way. *)

val stop : unit -> unit
(** Ends the recording. *)
