(* A text as a tree of pieces under random edits, with a bounded history: strings of 1 to 4000 bytes whose ages differ. *)
type text = Piece of string | Join of int * text * text

let length = function Piece text -> String.length text | Join (length, _, _) -> length

let join a b =
  match (a, b) with
  | Piece a, Piece b when String.length a + String.length b < 2000 -> Piece (a ^ b)
  | _ -> if length a = 0 then b else if length b = 0 then a else Join (length a + length b, a, b)

let rec split text at =
  match text with
  | Piece text -> (Piece (String.sub text 0 at), Piece (String.sub text at (String.length text - at)))
  | Join (_, left, right) ->
      let middle = length left in
      if at <= middle then
        let a, b = split left at in
        (a, join b right)
      else
        let a, b = split right (at - middle) in
        (join left a, b)

let rec flat buffer = function
  | Piece text -> Buffer.add_string buffer text
  | Join (_, a, b) -> flat buffer a; flat buffer b

let rec pieces text from until =
  if until - from <= 1500 then Piece (String.sub text from (until - from))
  else
    let middle = (from + until) / 2 in
    Join (until - from, pieces text from middle, pieces text middle until)

let () =
  let bytes = int_of_string Sys.argv.(1) and edits = int_of_string Sys.argv.(2) in
  let state = Random.State.make [| 17 |] in
  let history = Array.make 2000 (Piece "") in
  let text = ref (pieces (String.make bytes 't') 0 bytes) in
  for edit = 1 to edits do
    let before, after = split !text (Random.State.int state (length !text)) in
    let dropped = min (length after) (Random.State.int state 600) in
    let _, after = split after dropped in
    text := join (join before (Piece (String.make (1 + Random.State.int state 600) 'n'))) after;
    history.(edit mod Array.length history) <- !text;
    if edit mod 20_000 = 0 then begin
      let buffer = Buffer.create bytes in
      flat buffer !text;
      text := pieces (Buffer.contents buffer) 0 (Buffer.length buffer)
    end
  done;
  Printf.printf "%d\n" (length !text)
