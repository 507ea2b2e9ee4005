-- Contractions of chemistry and physics beside a matrix product of the same size.
--
-- C[abcd] = sum over e of A[dbea] B[ec] is a matrix product in disguise: m rows (the labels that A
-- and C have), n columns (B and C), k summed (A and B). The plain way copies A and B so that they
-- are matrices, multiplies, and copies the product so that its axes stand as C's. The benchmark
-- TCCG (Springer and Bientinesi, arXiv 1607.00145) asks what is lost if the axes stand otherwise.
-- A good engine reads them where they lie: the last column should be near 1.
--
-- gradus script configs/contraction/tccg.lua [SCALE]    of all extents, 1 if it is not given
local scale = tonumber(arg[1]) or 1

-- C, A, B and extents by letter, smaller than TCCG's, which names the axis of stride 1 first: each
-- term is turned around below.
local cases = {
  {"abcde", "efbad", "cf", {a = 24, b = 16, c = 12, d = 24, e = 24, f = 16}},
  {"abcd", "dbea", "ec", {a = 48, b = 48, c = 24, d = 48, e = 48}},
  {"abc", "bda", "dc", {a = 160, b = 160, c = 24, d = 160}},
  {"abcdef", "dega", "gfbc", {a = 12, b = 12, c = 12, d = 12, e = 12, f = 12, g = 12}},
  {"abcd", "ea", "ebcd", {a = 48, b = 48, c = 48, d = 48, e = 48}},
  {"ab", "acd", "dbc", {a = 160, b = 160, c = 48, d = 160}},
  {"abcd", "aebf", "dfce", {a = 32, b = 32, c = 32, d = 32, e = 32, f = 32}},
}

local function shape_of(term, extents)
  local shape = {}
  for k = 1, #term do shape[k] = math.max(2, extents[term:sub(k, k)] * scale // 1 | 0) end
  return shape
end
-- The letters of x that y has, or has not.
local function letters(x, y, has)
  return (x:gsub(".", function(l) return (y:find(l) ~= nil) == has and l or "" end))
end
local function places(order, term)
  local dims = {}
  for k = 1, #order do dims[k] = term:find(order:sub(k, k)) end
  return dims
end
-- Seconds of the processor, all its cores added up: the best of five.
local function seconds(f)
  local best = math.huge
  for _ = 1, 5 do
    local begin = os.clock()
    f()
    gradus.synchronize()
    best = math.min(best, os.clock() - begin)
  end
  return best
end

gradus.seed(1)
local worst, log_ratio = 0, 0
print("contraction               m      n      k  GFLOP/s  matmul  ratio")
for _, case in ipairs(cases) do
  local C, A, B, extents = case[1]:reverse(), case[2]:reverse(), case[3]:reverse(), case[4]
  local a = gradus.randn(shape_of(A, extents), {dtype = "f64"})
  local b = gradus.randn(shape_of(B, extents), {dtype = "f64"})
  local equation = A .. "," .. B .. "->" .. C
  local c = gradus.einsum(equation, a, b)
  -- The plain way, which is the oracle: permute, multiply, permute.
  local rows, columns, summed = letters(A, C, true), letters(B, C, true), letters(A, B, true)
  local k = 1
  for _, extent in ipairs(shape_of(summed, extents)) do k = k * extent end
  local x = a:permute(places(rows .. summed, A)):reshape(-1, k)
  local y = b:permute(places(summed .. columns, B)):reshape(k, -1)
  local product = x:matmul(y):reshape(shape_of(rows .. columns, extents))
  local plain = product:permute(places(C, rows .. columns))
  worst = math.max(worst, ((c - plain):abs():amax() / plain:abs():amax()):item())
  local m, n = x.shape[1], y.shape[2]
  local ours = seconds(function() return gradus.einsum(equation, a, b) end)
  local matmul = seconds(function() return x:matmul(y) end)
  local gflop = 2e-9 * m * n * k
  log_ratio = log_ratio + math.log(matmul / ours) / #cases
  print(string.format("%-20s %6d %6d %6d  %7.1f %7.1f  %5.2f", equation, m, n, k, gflop / ours,
                      gflop / matmul, matmul / ours))
end
print(string.format("geometric mean of the ratios: %.2f", math.exp(log_ratio)))
if not (worst < 1e-12) then error("a value differs from the plain way's by " .. worst) end
print("verified: " .. #cases .. " contractions, as permute, matmul and permute")
