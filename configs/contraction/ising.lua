-- Spins on a grid in a magnetic field: the derivative of log Z is the magnetisation.
--
-- A state gives each spin s = 1 or -1 and has the weight exp((sum of s s' over neighbours + sum of
-- h s) / T). The partition function Z, the sum of all weights, is a tensor network: each spin is a
-- label, each pair of neighbours a matrix exp(s s' / T), each field a vector exp(h s / T). Since
-- d log Z / d h_i = <s_i> / T, one backward pass gives the mean of every spin at once.
--
-- gradus script configs/contraction/ising.lua [SIDE]    of the larger grid, 10 if it is not given
local side = tonumber(arg[1]) or 10
local f64 = {dtype = "f64"}
local spin = gradus.tensor({1, -1}, f64)

local function neighbours(n)
  local pairs_of = {}
  for r = 0, n - 1 do
    for c = 0, n - 1 do
      local i = r * n + c + 1
      if c < n - 1 then table.insert(pairs_of, {i, i + 1}) end
      if r < n - 1 then table.insert(pairs_of, {i, i + n}) end
    end
  end
  return pairs_of
end

-- Operands and labels of Z: the pairs, then the fields.
local function log_partition(n, field, temperature)
  local labels, operands = neighbours(n), {}
  local pair = (spin:outer(spin) / temperature):exp()
  for k = 1, #labels do operands[k] = pair end
  for i = 1, n * n do
    table.insert(operands, (field[i] * spin / temperature):exp())
    table.insert(labels, {i})
  end
  return gradus.einsum(operands, labels, {}):log()
end

local function means(n, field, temperature)
  field:requires_grad_()
  return gradus.grad(log_partition(n, field, temperature), field) * temperature
end

-- The same by going through all 2^(n n) states.
local function counted(n, field, temperature)
  local z, sums, h, edges = 0, {}, field:totable(), neighbours(n)
  for i = 1, n * n do sums[i] = 0 end
  for state = 0, (1 << n * n) - 1 do
    local s, minus_energy = {}, 0
    for i = 1, n * n do
      s[i] = (state >> i - 1 & 1) * 2 - 1
      minus_energy = minus_energy + h[i] * s[i]
    end
    for _, e in ipairs(edges) do minus_energy = minus_energy + s[e[1]] * s[e[2]] end
    local weight = math.exp(minus_energy / temperature)
    z = z + weight
    for i = 1, n * n do sums[i] = sums[i] + weight * s[i] end
  end
  return gradus.tensor(sums, f64) / z
end

gradus.seed(1)
local field = 0.3 * gradus.randn(9, f64)  -- another one at each spin
local by_gradient, by_counting = means(3, field, 2.0), counted(3, field:detach(), 2.0)
local off = (by_gradient - by_counting):abs():amax():item()
print("mean of each spin of 3 x 3 by gradient, by counting 2^9 states:")
for i = 1, 9 do
  print(string.format("  %9.6f  %9.6f", by_gradient[i]:item(), by_counting[i]:item()))
end

-- Far more states than can be counted. Cold spins hold together, so that a weak field turns most of
-- them; hot ones hardly heed it. (An endless grid changes at T = 2.27, a small one gradually.)
print(string.format("a grid of %d x %d in a field of 0.05:", side, side))
for _, temperature in ipairs{1.5, 2.0, 2.5, 3.0, 4.0} do
  local m = means(side, gradus.full({side * side}, 0.05, f64), temperature)
  print(string.format("  T = %.1f  magnetisation %.4f", temperature, m:mean():item()))
end
if not (off < 1e-12) then error("the gradient is not the magnetisation: off by " .. off) end
print("verified: the mean of each of 3 x 3 spins, to 12 digits, by counting all states")
