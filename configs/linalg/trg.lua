-- The two-dimensional Ising model by coarse-graining: free energy, energy, specific heat.
--
-- The partition function of spins on a square lattice is a network of equal tensors T[u, l, d, r],
-- one for each site. A step of the tensor renormalisation group (Levin & Nave, Phys. Rev. Lett. 99,
-- 120601 (2007)) splits each tensor in two by a truncated SVD and joins four halves around a hole to
-- one, so that half as many tensors stand for the same lattice. After n steps one tensor stands for
-- 2^n sites. All of it is made of ops, so one backward pass gives d log Z / d beta, which is minus
-- the energy, and a second one the specific heat, beta^2 d^2 log Z / d beta^2. Onsager's formula is
-- the judge.
--
-- gradus script configs/linalg/trg.lua [BOND] [STEPS]
-- The second derivative keeps what both passes made: bond 24 wants --max-memory 8GiB after `script`.
local bond, steps = tonumber(arg[1]) or 12, tonumber(arg[2]) or 20
local f64 = {dtype = "f64"}

-- exp(beta s s') = sum_i W[s, i] W[s', i]; T sums over the spin of its site.
local function site(beta)
  local c, s = beta:cosh():sqrt(), beta:sinh():sqrt()
  local w = gradus.stack({gradus.stack({c, s}), gradus.stack({c, -s})})
  return gradus.einsum("su,sl,sd,sr->uldr", w, w, w, w)
end

-- T[a, b, c, d] as X[a, b, k] Y[k, c, d], with at most `bond` values of k. Each takes a root of the
-- singular values.
local function halves(t)
  local u, s, vh = gradus.tensorsvd(t, {left_dims = {1, 2}, rank = bond, rtol = 1e-14})
  local root = s:sqrt()
  return u * root, vh * root:reshape(-1, 1, 1)
end

-- log Z per site.
local function log_partition(beta)
  local t, sum, sites = site(beta), 0, 1
  for _ = 1, steps do
    local size = t:norm()
    t, sum = t / size, sum + size:log() / sites
    local ul, dr = halves(t)
    local ld, ru = halves(t:permute(2, 3, 4, 1))
    t = gradus.einsum("pea,abq,bct,sce->pstq", dr, ld, ul, ru)
    sites = 2 * sites
  end
  return sum + gradus.einsum("ijij->", t):log() / sites
end

-- Onsager: log Z per site of the endless lattice, by the midpoint rule.
local function cosh(x) return (math.exp(x) + math.exp(-x)) / 2 end
local function sinh(x) return (math.exp(x) - math.exp(-x)) / 2 end
local function onsager(beta)
  local kappa, n, sum = 2 * sinh(2 * beta) / cosh(2 * beta)^2, 200000, 0
  for i = 1, n do
    local s = math.sin((i - 0.5) * math.pi / 2 / n)
    sum = sum + math.log(1 + math.sqrt(math.max(0, 1 - (kappa * s)^2)))
  end
  return math.log(math.sqrt(2) * cosh(2 * beta)) + sum / (2 * n)
end

local function value(beta) return log_partition(gradus.tensor(beta, f64)):item() end
local function slope(beta)
  local b = gradus.tensor(beta, f64):requires_grad_()
  return gradus.grad(log_partition(b), b):item()
end
local function heat(beta)
  local b = gradus.tensor(beta, f64):requires_grad_()
  local first = gradus.grad(log_partition(b), b, {create_graph = true})
  return beta^2 * gradus.grad(first, b):item()
end
local critical, h = math.log(1 + math.sqrt(2)) / 2, 1e-4
local worst = 0
print(string.format("bond %d, 2^%d sites", bond, steps))
print("      beta    log Z per site    relative error    energy        Onsager")
for _, beta in ipairs{0.3, critical, 0.6} do
  local z, exact = value(beta), onsager(beta)
  local energy = (onsager(beta - h) - onsager(beta + h)) / (2 * h)
  print(string.format("  %.6f    %.10f    %14.2e    %.7f    %.7f", beta, z, z / exact - 1,
                      -slope(beta), energy))
  worst = math.max(worst, math.abs(z / exact - 1))
end
print("      beta    specific heat    Onsager")
local heat_off = 0
for _, beta in ipairs{0.3, 0.6} do  -- at the critical point it is infinite
  local h = 1e-3
  local exact = beta^2 * (onsager(beta + h) - 2 * onsager(beta) + onsager(beta - h)) / h^2
  local c = heat(beta)
  print(string.format("  %.6f    %.7f        %.7f", beta, c, exact))
  heat_off = math.max(heat_off, math.abs(c / exact - 1))
end
local differences = (8 * (value(critical + h) - value(critical - h)) -
                     (value(critical + 2 * h) - value(critical - 2 * h))) / (12 * h)
local off = math.abs(slope(critical) / differences - 1)
print(string.format("the gradient at the critical point differs from differences by %.1e", off))
-- A bond of 24 is enough for 1e-5 at the critical point, where it is hardest.
local allowed = bond >= 24 and 1e-5 or bond >= 12 and 1e-4 or 1e-3
if not (worst < allowed) then error("the free energy is off by " .. worst) end
if not (heat_off < 1e-3) then error("the specific heat is off by " .. heat_off) end
if not (off < 1e-6) then error("the gradient is off by " .. off) end
print(string.format("verified: free energies to %.0e, specific heats to 1e-3 by Onsager", allowed))
