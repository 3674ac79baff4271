(* A map of numbers to short lists under random insertion and removal: blocks of a few words, a live heap that stays. *)
module Numbers = Map.Make (Int)

let () =
  let keys = int_of_string Sys.argv.(1) and steps = int_of_string Sys.argv.(2) in
  let state = Random.State.make [| 7 |] in
  let map = ref Numbers.empty in
  for step = 1 to steps do
    let key = Random.State.int state keys in
    if Random.State.int state 3 = 0 then map := Numbers.remove key !map
    else
      map :=
        Numbers.update key
          (function Some (a :: b :: c :: _) -> Some [ step; a; b; c ] | Some rest -> Some (step :: rest) | None -> Some [ step ])
          !map
  done;
  Printf.printf "%d\n" (Numbers.fold (fun _ list sum -> sum + List.length list) !map 0)
