(* The program of docs/curve.md and of tests/curve.rs. *)
(* Bounded cache of heavy-tailed strings under random replacement, with a Hashtbl index. *)
let () =
  let n = int_of_string Sys.argv.(1) and ops = int_of_string Sys.argv.(2) in
  let st = Random.State.make [|42|] in
  let size () =
    let r = Random.State.int st 100 in
    if r < 50 then 8 + Random.State.int st 56
    else if r < 85 then 64 + Random.State.int st 448
    else if r < 98 then 512 + Random.State.int st 3584
    else 4096 + Random.State.int st 28672 in
  let slots = Array.make n "" in
  let index : (int, string list) Hashtbl.t = Hashtbl.create 1024 in
  let sum = ref 0 in
  for i = 1 to ops do
    let k = Random.State.int st n in
    let s = Bytes.unsafe_to_string (Bytes.make (size ()) 'x') in
    slots.(k) <- s;
    let h = k / 4 in
    let old = try Hashtbl.find index h with Not_found -> [] in
    let l = s :: (match old with a :: b :: _ -> [a; b] | l -> l) in
    Hashtbl.replace index h l;
    if i land 15 = 0 then sum := !sum + String.length slots.(Random.State.int st n)
  done;
  Printf.printf "%d\n" !sum
