-- In how many ways can the vertices of a graph be coloured so that no edge joins two of one colour?
--
-- Every vertex is a label that takes k values, every edge is a matrix: 1 where the colours of its
-- two ends differ, 0 where they are the same. The product of all matrices is 1 for a good colouring
-- and 0 for any other, so its sum over all labels counts the good ones. A vertex of degree 4 is a
-- label of four matrices: a hyperedge. Numbers are whole (i64), so the count is exact.
--
-- gradus script configs/contraction/colourings.lua [SIDE]    of the grid, 8 if it is not given
local side = tonumber(arg[1]) or 8

-- The edges themselves, {{1, 2}, {2, 3}, ...}, are the labels of the einsum.
local function count(edges, k)
  local differ, matrices = 1 - gradus.eye(k, {dtype = "i64"}), {}
  for i = 1, #edges do matrices[i] = differ end
  return gradus.einsum(matrices, edges, {}):item()
end

local checked = 0
local function check(what, got, wanted)
  print(string.format("%-34s %20d", what, got))
  if got ~= wanted then error(what .. ": expected " .. wanted) end
  checked = checked + 1
end

-- Petersen's graph: a cycle of five, a star of five, and a spoke from each to each. Its chromatic
-- polynomial is known.
local petersen = {}
for i = 0, 4 do
  table.insert(petersen, {i, (i + 1) % 5})
  table.insert(petersen, {i, 5 + i})
  table.insert(petersen, {5 + i, 5 + (i + 2) % 5})
end
for k = 2, 5 do
  local wanted = 0
  for _, c in ipairs{1, -12, 67, -230, 529, -814, 775, -352} do wanted = wanted * k + c end
  check("Petersen's graph, " .. k .. " colours", count(petersen, k), k * (k - 1) * (k - 2) * wanted)
end

-- A cycle of n vertices: (k - 1)^n + (-1)^n (k - 1).
for _, n in ipairs{3, 30} do
  local cycle = {}
  for i = 1, n do cycle[i] = {i, i % n + 1} end
  check("a cycle of " .. n .. ", 3 colours", count(cycle, 3), (1 << n) + (n % 2 == 0 and 2 or -2))
end

-- A square grid, counted once more another way: row by row. good[a][b] says whether row b may stand
-- below row a, and the number of colourings is the sum of all entries of good^(side - 1).
local grid, rows = {}, {}
for r = 1, side do
  for c = 1, side do
    local at = r * side + c
    if c < side then table.insert(grid, {at, at + 1}) end
    if r < side then table.insert(grid, {at, at + side}) end
  end
end
for code = 0, 3 ^ side - 1 do
  local row, good = {}, true
  for c = 1, side do
    row[c] = code // 3 ^ (c - 1) % 3
    good = good and row[c] ~= row[c - 1]
  end
  if good then table.insert(rows, row) end
end
rows = gradus.tensor(rows)
local good = rows:unsqueeze(1):ne(rows:unsqueeze(2)):all(3):to("i64")
local ways = gradus.ones(#rows, {dtype = "i64"})
for _ = 2, side do ways = good:matmul(ways) end
check("a grid of " .. side .. " x " .. side .. ", 3 colours", count(grid, 3), ways:sum():item())
print("verified: " .. checked .. " counts, all exact; Petersen's graph has 120 3-colourings")
