-- Phases as "Are we slim yet" had them. `heaplab mark` names a moment.
local function mark(name) assert(os.execute("heaplab mark " .. name)) end
collectgarbage()
mark "start"
local records, words = {}, {}
for i = 1, 20000 do
  records[i] = { id = i, name = "record " .. i, tags = { i, i + 1, i + 2 } }
  words["word " .. i % 5000] = i
end
local matrix = {}
for row = 1, 100 do
  matrix[row] = {}
  for column = 1, 200 do matrix[row][column] = row * column end
end
collectgarbage()
mark "loaded"
records, words, matrix = nil, nil, nil
collectgarbage(); collectgarbage()
mark "closed"
