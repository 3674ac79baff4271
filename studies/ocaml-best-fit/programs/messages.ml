(* Messages of mixed sizes through a queue, a few of them kept for long: most blocks die in the order of their births. *)
let () =
  let waiting = int_of_string Sys.argv.(1) and messages = int_of_string Sys.argv.(2) in
  let state = Random.State.make [| 19 |] in
  let queue = Queue.create () and kept = Array.make (waiting / 4) Bytes.empty in
  let size () =
    match Random.State.int state 20 with
    | 0 -> 8_000 + Random.State.int state 24_000
    | 1 | 2 | 3 -> 1_000 + Random.State.int state 3_000
    | _ -> 16 + Random.State.int state 240
  in
  let sum = ref 0 in
  for _ = 1 to messages do
    Queue.add (Bytes.make (size ()) 'm') queue;
    if Queue.length queue > waiting then begin
      let message = Queue.take queue in
      sum := !sum + Bytes.length message;
      if Random.State.int state 10 = 0 then kept.(Random.State.int state (Array.length kept)) <- message
    end
  done;
  Printf.printf "%d\n" !sum
