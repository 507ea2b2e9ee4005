-- The ground state of the Heisenberg chain by the density matrix renormalisation group.
--
-- H = sum of S_i . S_(i+1) over n spins 1/2, open ends. The state is a chain of tensors A[a, s, b]
-- (a matrix product state), H a chain of tensors W[w, x, s, s'] (5 x 5 operators). A step joins two
-- neighbours, takes the lowest eigenvector of H as they see it (func.eigsh: Lanczos, H is never
-- written out as a matrix), and splits it again by a truncated SVD (White, Phys. Rev. Lett. 69, 2863
-- (1992); Schollwoeck, Annals of Physics 326, 96 (2011)). The judge is the same Lanczos on all 2^n
-- amplitudes.
--
-- gradus script configs/linalg/dmrg.lua [SITES] [BOND]
local function whole(text, usual)
  local n = text and tonumber(text) or usual
  if n ~= n // 1 or n < 2 then error("expected a whole number from 2, got " .. text) end
  return n // 1
end
local sizes = arg[1] and {whole(arg[1], 0)} or {8, 10, 12}
local bond = whole(arg[2], 24)
local function f64(numbers) return gradus.tensor(numbers, {dtype = "f64"}) end

local one, z, nothing = f64{{1, 0}, {0, 1}}, f64{{0.5, 0}, {0, -0.5}}, f64{{0, 0}, {0, 0}}
local up, down = f64{{0, 1}, {0, 0}}, f64{{0, 0}, {1, 0}}
-- Row 1 begins a term S . S, column 5 ends it.
local w = gradus.stack({
  gradus.stack({one, up, down, z, nothing}),
  gradus.stack({nothing, nothing, nothing, nothing, down / 2}),
  gradus.stack({nothing, nothing, nothing, nothing, up / 2}),
  gradus.stack({nothing, nothing, nothing, nothing, z}),
  gradus.stack({nothing, nothing, nothing, nothing, one})})

local function lowest(map, start)
  local value, vectors = gradus.func.eigsh(map, start, {which = "SA"})
  return value:item(), vectors:select(-1, 0)
end

-- All amplitudes: h acts on two neighbours after another.
local function exact(n)
  local h = gradus.einsum("wst,wuv->sutv", w:select(1, 0):narrow(1, 1, 3), w:select(2, 4):narrow(1, 1, 3))
  local function map(x)
    local sum
    for i = 1, n - 1 do
      local parts = x:reshape(2 ^ (i - 1) // 1, 2, 2, 2 ^ (n - i - 1) // 1)
      local term = gradus.einsum("sutv,atvb->asub", h, parts):reshape(-1)
      sum = sum and sum + term or term
    end
    return sum
  end
  return (lowest(map, gradus.zeros(2 ^ n // 1, {dtype = "f64"})))
end

local function dmrg(n)
  -- Up, down, up, ...: a state of bond 1.
  local a, left, right = {}, {}, {}
  for i = 1, n do a[i] = f64{{{i % 2}, {1 - i % 2}}} end
  left[1], right[n] = f64{{{1}, {0}, {0}, {0}, {0}}}, f64{{{0}, {0}, {0}, {0}, {1}}}
  local function grow_left(i) left[i + 1] = gradus.einsum("awc,asb,wxst,ctd->bxd", left[i], a[i], w, a[i]) end
  local function grow_right(i) right[i - 1] = gradus.einsum("bxd,asb,wxst,ctd->awc", right[i], a[i], w, a[i]) end
  for i = n, 3, -1 do grow_right(i) end
  local energy, discarded
  local function step(i, rightwards)
    local function map(x)
      return gradus.einsum("awc,wxse,xytf,byd,cefd->astb", left[i], w, w, right[i + 1], x)
    end
    local pair
    energy, pair = lowest(map, gradus.einsum("asb,btc->astc", a[i], a[i + 1]))
    local u, s, vh, rest = gradus.tensorsvd(pair, {left_dims = {1, 2}, rank = bond, rtol = 1e-12})
    discarded = math.max(discarded, rest:item())
    if rightwards then
      a[i], a[i + 1] = u, s:reshape(-1, 1, 1) * vh
      grow_left(i)
    else
      a[i], a[i + 1] = u * s, vh
      grow_right(i + 1)
    end
  end
  for sweep = 1, 8 do
    local before = energy
    discarded = 0
    for i = 1, n - 2 do step(i, true) end
    for i = n - 1, 2, -1 do step(i, false) end
    step(1, false)
    if before and math.abs(energy - before) < 1e-12 then return energy, sweep, discarded end
  end
  return energy, 8, discarded
end

print(string.format("bond up to %d", bond))
print("  sites         energy          exact    difference    sweeps    discarded")
local worst = 0
for _, n in ipairs(sizes) do
  local energy, sweeps, discarded = dmrg(n)
  local all = exact(n)
  print(string.format("  %5d   %.10f  %.10f    %10.1e    %6d    %9.1e", n, energy, all, energy - all, sweeps, discarded))
  worst = math.max(worst, math.abs(energy - all))
end
if not (worst < 1e-8) then error("the energy is off by " .. worst) end
print("verified: energies to 1e-8 by all amplitudes")
