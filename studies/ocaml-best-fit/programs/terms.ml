(* Derivatives of random terms, simplified and kept in a table that forgets the oldest: trees of small blocks that die
   together. *)
type term = Number of int | Variable | Sum of term * term | Product of term * term | Power of term * int

let rec random state depth =
  if depth = 0 then if Random.State.bool state then Variable else Number (Random.State.int state 9)
  else
    match Random.State.int state 4 with
    | 0 -> Power (random state (depth - 1), 2 + Random.State.int state 3)
    | 1 -> Sum (random state (depth - 1), random state (depth - 1))
    | _ -> Product (random state (depth - 1), random state (depth - 1))

let rec simplify = function
  | Sum (a, b) -> (
      match (simplify a, simplify b) with
      | Number 0, term | term, Number 0 -> term
      | Number a, Number b -> Number (a + b)
      | a, b -> Sum (a, b))
  | Product (a, b) -> (
      match (simplify a, simplify b) with
      | Number 0, _ | _, Number 0 -> Number 0
      | Number 1, term | term, Number 1 -> term
      | Number a, Number b -> Number (a * b)
      | a, b -> Product (a, b))
  | Power (a, 1) -> simplify a
  | Power (a, n) -> Power (simplify a, n)
  | term -> term

let rec derive = function
  | Number _ -> Number 0
  | Variable -> Number 1
  | Sum (a, b) -> Sum (derive a, derive b)
  | Product (a, b) -> Sum (Product (derive a, b), Product (a, derive b))
  | Power (a, n) -> Product (Number n, Product (Power (a, n - 1), derive a))

let rec size = function
  | Number _ | Variable -> 1
  | Sum (a, b) | Product (a, b) -> 1 + size a + size b
  | Power (a, _) -> 1 + size a

let () =
  let kept = int_of_string Sys.argv.(1) and steps = int_of_string Sys.argv.(2) in
  let state = Random.State.make [| 13 |] in
  let table = Array.make kept (Number 0) in
  for step = 0 to steps - 1 do
    table.(step mod kept) <- simplify (derive (simplify (random state (3 + Random.State.int state 6))))
  done;
  Printf.printf "%d\n" (Array.fold_left (fun sum term -> sum + size term) 0 table)
