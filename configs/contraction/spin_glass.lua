-- The ground state of a spin glass is a gradient.
--
-- Neighbours on a grid want to be equal (J = 1) or different (J = -1), drawn at random; not all of
-- them can have it their way. In the max-plus algebra, where + takes the place of * and max that of
-- the sum, the network of the matrices J s s' is not a sum over all states but the largest sum of
-- J s s' that any state has: minus the energy of the ground state. Beside it stands a vector of
-- zeros for each spin. What the value would gain by another number there is 1 for the value that
-- the spin has in the best state, 0 for the other: the gradient is the ground state.
--
-- gradus script configs/contraction/spin_glass.lua [SIDE]    of the large grid, 14 if not given
local side = tonumber(arg[1]) or 14
local f64 = {dtype = "f64"}
local spin = gradus.tensor({1, -1}, f64)

local function glass(n)
  local edges = {}
  for r = 0, n - 1 do
    for c = 0, n - 1 do
      local i = r * n + c + 1
      if c < n - 1 then table.insert(edges, {i, i + 1}) end
      if r < n - 1 then table.insert(edges, {i, i + n}) end
    end
  end
  local J = gradus.randint(0, 2, {#edges}) * 2 - 1
  return edges, J:totable()
end

-- The best sum of J s s', and the state that has it.
local function ground_state(n, edges, J)
  local operands, labels = {}, {}
  for k, e in ipairs(edges) do operands[k], labels[k] = J[k] * spin:outer(spin), e end
  local sites = gradus.zeros(n * n, 2, {dtype = "f64", requires_grad = true})
  for i = 1, n * n do
    table.insert(operands, sites[i])
    table.insert(labels, {i})
  end
  local best = gradus.einsum(operands, labels, {}, "max-plus")
  local winners = gradus.grad(best, sites)
  return best:item(), winners:matmul(spin):totable(), winners
end

local function sum_of(state, edges, J)
  local sum = 0
  for k, e in ipairs(edges) do sum = sum + J[k] * state[e[1]] * state[e[2]] end
  return sum
end

-- All states of a small glass.
gradus.seed(5)
local tried = 0
for trial = 1, 5 do
  local edges, J = glass(3)
  local best, state = ground_state(3, edges, J)
  local by_force = -math.huge
  for bits = 0, 511 do
    local s = {}
    for i = 1, 9 do s[i] = (bits >> i - 1 & 1) * 2 - 1 end
    by_force = math.max(by_force, sum_of(s, edges, J))
  end
  print(string.format("3 x 3, glass %d: energy %g, of 512 states %g", trial, -best, -by_force))
  if best ~= by_force or sum_of(state, edges, J) ~= best then error("not the ground state") end
  tried = tried + 1
end

-- A large one: the state that the gradient says has the energy that the value says.
local edges, J = glass(side)
local best, state, winners = ground_state(side, edges, J)
for r = 1, side do
  local line = {}
  for c = 1, side do line[c] = state[(r - 1) * side + c] > 0 and "+" or "-" end
  print("  " .. table.concat(line, " "))
end
local one_each = winners:sum(2):eq(1):all():item() and winners:mul(1 - winners):eq(0):all():item()
if not one_each then error("the gradient is not one state") end
if sum_of(state, edges, J) ~= best then error("the state has another energy than the value") end
print(string.format("%d x %d: energy %g, %.4f for each spin", side, side, -best, -best / side ^ 2))
print("verified: " .. tried .. " ground states by force; the large state has its energy exactly")
