(* An index of a growing text: words to the places where they stand, in arrays that double. Its live heap grows with the
   number of lines, and holes of all sizes are left by the arrays that were outgrown. *)
type places = { mutable used : int; mutable at : int array }

let () =
  let lines = int_of_string Sys.argv.(1) in
  let state = Random.State.make [| 11 |] in
  let index : (string, places) Hashtbl.t = Hashtbl.create 64 in
  let word () =
    (* Few words are frequent, most are rare. *)
    let rank = int_of_float (exp (Random.State.float state 11.)) in
    Printf.sprintf "%x-%s" rank (String.make (1 + (rank mod 23)) 'w')
  in
  for line = 1 to lines do
    for _ = 1 to 8 do
      let word = word () in
      let places =
        match Hashtbl.find_opt index word with
        | Some places -> places
        | None ->
            let places = { used = 0; at = Array.make 4 0 } in
            Hashtbl.add index word places;
            places
      in
      if places.used = Array.length places.at then begin
        let larger = Array.make (2 * places.used) 0 in
        Array.blit places.at 0 larger 0 places.used;
        places.at <- larger
      end;
      places.at.(places.used) <- line;
      places.used <- places.used + 1
    done
  done;
  Printf.printf "%d\n" (Hashtbl.length index)
