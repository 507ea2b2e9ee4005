-- The norm of a projected entangled pair state: a grid of tensors, joined to a copy of itself.
--
-- Each site of an L x L grid has a tensor with one axis for its spin and one for each neighbour.
-- The norm sums over all spins and, twice, over all bonds. No order makes a grid cheap, but the
-- right one grows like D^(2 L) where others grow like D^(L L).
--
-- gradus script configs/contraction/peps.lua [SIDE [BOND]]    5 and 3 if they are not given
local side, bond = tonumber(arg[1]) or 5, tonumber(arg[2]) or 3

-- Labels of each site: its bonds, then its spin. The bond to the right of site i is label i, the
-- one below 100 + i, the spin 200 + i.
local function sites_of(n)
  local labels = {}
  for r = 1, n do
    for c = 1, n do
      local i, own = (r - 1) * n + c, {}
      if c > 1 then table.insert(own, i - 1) end
      if c < n then table.insert(own, i) end
      if r > 1 then table.insert(own, 100 + i - n) end
      if r < n then table.insert(own, 100 + i) end
      table.insert(own, 200 + i)
      labels[i] = own
    end
  end
  return labels
end

local function random_state(labels, d)
  local state = {}
  for i, own in ipairs(labels) do
    local shape = {}
    for k = 1, #own do shape[k] = k < #own and d or 2 end
    state[i] = gradus.randn(shape, {dtype = "f64"}) / math.sqrt(2 * d ^ ((#own - 1) / 2))
    state[i]:requires_grad_()
  end
  return state
end

-- The copy has its own bonds, 1000 above, and the same spins.
local function doubled(state, labels)
  local operands, all = {table.unpack(state)}, {table.unpack(labels)}
  for i, own in ipairs(labels) do
    local copy = {}
    for k, label in ipairs(own) do copy[k] = k < #own and 1000 + label or label end
    table.insert(operands, state[i])
    table.insert(all, copy)
  end
  return operands, all
end

gradus.seed(4)
local labels = sites_of(3)
local small, spins = random_state(labels, 2), {}
for i = 1, 9 do spins[i] = 200 + i end
local dense = gradus.einsum(small, labels, spins):square():sum():item()
local operands, all = doubled(small, labels)
local by_network = gradus.einsum(operands, all, {}):item()
print(string.format("3 x 3, bond 2: <psi|psi> %.12f by network, %.12f dense", by_network, dense))
if math.abs(by_network / dense - 1) > 1e-12 then error("another norm than the dense state's") end

labels = sites_of(side)
local state = random_state(labels, bond)
operands, all = doubled(state, labels)
local plan = gradus.einsum_plan(operands, all, {}, {budget = 2e6})
local greedy = gradus.einsum_plan(operands, all, {}, {path = "greedy"})
local value = plan(operands)
print(string.format("%d x %d, bond %d: <psi|psi> %.9g", side, side, bond, value:item()))
for _, p in ipairs{{"greedy", greedy}, {"this order", plan}} do
  local row = "  %-10s %.3g flops, largest intermediate %.3g numbers"
  print(row:format(p[1], p[2].flops, p[2].largest))
end

-- Each site's tensor stands in the norm twice: a times the gradient by a sums to twice the norm.
local off = 0
for i, slope in ipairs{gradus.grad(value, state)} do
  off = math.max(off, math.abs((slope * state[i]):sum():item() / (2 * value:item()) - 1))
end
if not (off < 1e-10) then error("the gradients are off by " .. off) end
print("verified: dense at 3 x 3, and the gradient of all " .. #state .. " sites by Euler")
