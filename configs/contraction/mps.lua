-- The norm of a matrix product state: 2^n numbers that nobody ever writes down.
--
-- A state of n spins is a tensor with n axes of extent 2. As a chain of small tensors, one for each
-- spin, joined by bonds of extent D, it takes about 2 n D^2 numbers. Its norm <psi|psi> joins the
-- chain to a copy of itself: in a good order n steps of D^3, in a bad one 2^n.
--
-- gradus script configs/contraction/mps.lua [SITES [BOND]]    80 and 32 if they are not given
local sites, bond = tonumber(arg[1]) or 80, tonumber(arg[2]) or 32

-- Axes: bond to the left, spin, bond to the right; the ends have bonds of extent 1.
local function random_state(n, d)
  local state = {}
  for i = 1, n do
    local left, right = i > 1 and d or 1, i < n and d or 1
    local a = gradus.randn(left, 2, right, {dtype = "f64"}) / math.sqrt(2 * math.sqrt(left * right))
    state[i] = a:requires_grad_()
  end
  return state
end

-- Bond k of the ket is label k, of the bra 1000 + k; both have spin 2000 + k.
local function norm(state)
  local operands, labels = {}, {}
  for i, a in ipairs(state) do
    table.insert(operands, a)
    table.insert(labels, {i, 2000 + i, i + 1})
    table.insert(operands, a)
    table.insert(labels, {1000 + i, 2000 + i, 1000 + i + 1})
  end
  local plan = gradus.einsum_plan(operands, labels, {}, {budget = 2e5})
  return plan(operands), plan
end

-- A short one, against the sum of the squares of all 2^10 numbers.
gradus.seed(2)
local short = random_state(10, 4)
local labels, spins = {}, {}
for i = 1, 10 do labels[i], spins[i] = {i, 2000 + i, i + 1}, 2000 + i end
local dense = gradus.einsum(short, labels, spins):square():sum():item()
local by_network = norm(short):item()
print(string.format("10 sites: <psi|psi> %.12f by network, %.12f dense", by_network, dense))
if math.abs(by_network / dense - 1) > 1e-12 then error("another norm than the dense state's") end

-- A long one. <psi|psi> has every site's tensor twice in it, so it is of second degree in each:
-- sum of a times the gradient by a is twice the norm, at every site (Euler).
local state = random_state(sites, bond)
local value, plan = norm(state)
local off = 0
for i, slope in ipairs{gradus.grad(value, state)} do
  local twice = (slope * state[i]):sum():item()
  off = math.max(off, math.abs(twice / (2 * value:item()) - 1))
end
print(string.format("%d sites, bond %d: <psi|psi> %.6f, %.3g flops for 2^%d numbers", sites, bond,
                    value:item(), plan.flops, sites))
if not (off < 1e-10) then error("the gradients are off by " .. off) end
print("verified: dense at 10 sites, and the gradient of all " .. sites .. " sites by Euler")
