-- What follows from what was seen? Marginals of a Bayesian network by one gradient.
--
-- A Bayesian network says the probability of each variable given its parents. The product of all
-- tables is the probability of a whole case, so summing it over everything is an einsum. Beside the
-- tables stands a vector for each variable, its evidence: {1, 1} if nothing was seen, {1, 0} if
-- "yes" was. Then Z is the probability of what was seen, and d log Z / d evidence(v, yes), where
-- the evidence is 1, is the probability of v = yes given all of it: for every variable at once.
--
-- gradus script configs/contraction/bayes.lua
local f64 = {dtype = "f64"}

-- P(child = yes | parents), as a table over the parents' values yes, no; the child is the first
-- axis of the tensor.
local function given(yes)
  local p = gradus.tensor(yes, f64)
  return gradus.stack({p, 1 - p}, 1)
end

-- Letters: one for each variable. A term is a table's: the child, then its parents.
local networks = {
  {
    name = "sprinkler",
    variables = {"cloudy", "sprinkler", "rain", "wet"},
    letters = "c,s,r,w",
    terms = "c,sc,rc,wsr",
    tables = {given(0.5), given{0.1, 0.5}, given{0.8, 0.2}, given{{0.99, 0.9}, {0.9, 0}}},
    cases = {{}, {wet = true}, {wet = true, rain = true}},
  },
  {
    name = "asia",  -- Lauritzen and Spiegelhalter, 1988
    variables = {"asia", "tuberculosis", "smoking", "lung cancer", "bronchitis", "either", "x-ray",
                 "dyspnoea"},
    letters = "a,t,s,l,b,e,x,d",
    terms = "a,ta,s,ls,bs,etl,xe,deb",
    tables = {given(0.01), given{0.05, 0.01}, given(0.5), given{0.1, 0.01}, given{0.6, 0.3},
              given{{1, 1}, {1, 0}}, given{0.98, 0.05}, given{{0.9, 0.7}, {0.8, 0.1}}},
    cases = {{}, {dyspnoea = true}, {dyspnoea = true, asia = true, ["x-ray"] = false}},
  },
}

local function evidence_of(network, case)
  local rows = {}
  for i, v in ipairs(network.variables) do
    local seen = case[v]
    rows[i] = {seen ~= false and 1 or 0, seen ~= true and 1 or 0}
  end
  return gradus.tensor(rows, {dtype = "f64", requires_grad = true})
end

local function marginals(network, evidence)
  local operands = {table.unpack(network.tables)}
  for i = 1, #network.variables do table.insert(operands, evidence[i]) end
  local z = gradus.einsum(network.terms .. "," .. network.letters .. "->", operands)
  return (evidence * gradus.grad(z:log(), evidence))["::,1"]
end

-- The same from the table of all cases, 2^n numbers: every letter in the output.
local function counted(network, evidence)
  local all = (network.letters:gsub(",", ""))
  local joint = gradus.einsum(network.terms .. "->" .. all, network.tables)
  for i = 1, #network.variables do
    local sizes = {}
    for k = 1, #network.variables do sizes[k] = k == i and 2 or 1 end
    joint = joint * evidence[i]:detach():reshape(sizes)
  end
  local p = {}
  for i = 1, #network.variables do p[i] = joint:transpose(1, i)[1]:sum() / joint:sum() end
  return gradus.stack(p, 1)
end

local worst, compared = 0, 0
for _, network in ipairs(networks) do
  for _, case in ipairs(network.cases) do
    local evidence = evidence_of(network, case)
    local p, wanted = marginals(network, evidence), counted(network, evidence)
    worst = math.max(worst, (p - wanted):abs():amax():item())
    compared = compared + #network.variables
    local seen = {}
    for v, yes in pairs(case) do table.insert(seen, v .. (yes and "" or " not")) end
    table.sort(seen)
    print(network.name .. ", seen: " .. (#seen > 0 and table.concat(seen, ", ") or "nothing"))
    for i, v in ipairs(network.variables) do
      print(string.format("  %-12s %.4f", v, p[i]:item()))
    end
  end
end
if not (worst < 1e-14) then error("the gradient is no marginal: off by " .. worst) end
print("verified: " .. compared .. " marginals by gradient, by summing all cases the same")
