-- The Heisenberg chain by two-site DMRG, in blocks of the conserved spin.
--
-- As configs/linalg/dmrg.lua, but every tensor knows that H conserves the z component of the spin:
-- each leg carries the charge 2 Sz, and only those blocks are there whose charges add up. A sweep
-- keeps its environments L and R, takes a few Lanczos steps for each pair of neighbours, and splits
-- the pair by an SVD of each sector, cut over all sectors together.
--
-- Energies of 8 to 14 sites are those of an exact diagonalisation, and are computed again here by
-- Lanczos steps on all 2^n amplitudes; of 48 sites another program's, by two-site DMRG at bond 512.
--
-- gradus script configs/contraction/dmrg_u1.lua [SITES] [BOND] [SWEEPS]
local function whole(text, usual)
  local n = text and tonumber(text) or usual
  if n ~= n // 1 or n < 2 then error("expected a whole number from 2, got " .. tostring(text)) end
  return n // 1
end
local sizes = arg[1] and {whole(arg[1])} or {8, 10, 12}
local bond, most_sweeps = whole(arg[2], 64), whole(arg[3], 12)
local known = {[8] = -3.374932598688, [10] = -4.258035207283, [12] = -5.142090632841,
               [14] = -6.026724661862, [48] = -21.0859563143863}
local f64, blocks, einsum = {dtype = "f64"}, gradus.blocks, gradus.einsum

-- Legs that end in each other have opposite arrows: a bond is left with -1 and entered with +1.
local spin = blocks.leg(1, {{1, 1}, {-1, 1}})
local carried = blocks.leg(1, {{0, 3}, {2, 1}, {-2, 1}})  -- by H: begun, Sz or ended; S+; S-
-- W[w, x, s', s]: row 1 begins a term S . S, column 3 ends it.
local function operator()
  local w = gradus.zeros(5, 5, 2, 2, f64)
  local function put(from, to, rows) w[{from, to}] = gradus.tensor(rows, f64) end
  local z = {{0.5, 0}, {0, -0.5}}
  put(1, 1, {{1, 0}, {0, 1}})
  put(3, 3, {{1, 0}, {0, 1}})
  put(1, 2, z)
  put(2, 3, z)
  put(1, 4, {{0, 1}, {0, 0}})
  put(1, 5, {{0, 0}, {1, 0}})
  put(4, 3, {{0, 0}, {0.5, 0}})
  put(5, 3, {{0, 0.5}, {0, 0}})
  return blocks.from_dense(w, {carried, carried:reversed(), spin, spin:reversed()})
end
local W = operator()
local two = einsum("wxps,xyqt->wypqst", W, W)  -- of two neighbours

-- The end of the chain: one element of the operator's bond counts there.
local function boundary(at, legs)
  local e = blocks.zeros(legs, f64)
  e.data[at] = 1
  return e
end

-- The lowest value and vector of the matrix with `alpha` on its diagonal and `beta` beside it.
local function ground(alpha, beta)
  if #alpha == 1 then return alpha[1], {1} end
  local rows = {}
  for i = 1, #alpha do
    rows[i] = {}
    for j = 1, #alpha do rows[i][j] = i == j and alpha[i] or math.abs(i - j) == 1 and beta[math.min(i, j)] or 0 end
  end
  local values, vectors = gradus.tensor(rows, f64):eigh()
  return values[1]:item(), vectors:select(2, 0):totable()
end

-- The lowest value of a Hermitian map and its vector, from v, which has length 1: at most `steps`
-- Lanczos steps, fewer once the rest, whose square is the error of the value, is small.
local function lowest(map, v, steps, enough)
  local basis, alpha, beta = {v}, {}, {}
  local value, weights
  for k = 1, steps do
    local w = map(basis[k])
    alpha[k] = w:dot(basis[k]):item()
    value, weights = ground(alpha, beta)
    if k == steps then break end
    w:sub_(alpha[k] * basis[k])
    if k > 1 then w:sub_(beta[k - 1] * basis[k - 1]) end
    beta[k] = w:norm():item()
    if beta[k] * math.abs(weights[k]) < enough then break end
    basis[k + 1] = w:div_(beta[k])
  end
  if #weights == 1 then return value, v end
  local sum = weights[1] * basis[1]
  for k = 2, #weights do sum:add_(weights[k] * basis[k]) end
  return value, sum
end

-- All amplitudes: h acts on two neighbours after another.
local function exact(n)
  local h = gradus.zeros(2, 2, 2, 2, f64)
  h[{1, 1, 1, 1}], h[{2, 2, 2, 2}], h[{1, 2, 1, 2}], h[{2, 1, 2, 1}] = 0.25, 0.25, -0.25, -0.25
  h[{1, 2, 2, 1}], h[{2, 1, 1, 2}] = 0.5, 0.5
  local function map(x)
    local sum
    for i = 1, n - 1 do
      local parts = x:reshape(2 ^ (i - 1) // 1, 2, 2, 2 ^ (n - i - 1) // 1)
      local term = einsum("pqst,astb->apqb", h, parts):reshape(-1)
      sum = sum and sum + term or term
    end
    return sum
  end
  return gradus.func.eigsh(map, gradus.zeros(2 ^ n // 1, f64), {which = "SA"}):item()
end

local function chain(n)
  -- Up, down, up, ...: a state of bond 1.
  local a, left, right = {}, {}, {}
  local total = 0
  for i = 1, n do
    local turn = i % 2 == 1 and 1 or -1
    a[i] = blocks.zeros({blocks.leg(1, {{total, 1}}), spin, blocks.leg(-1, {{total + turn, 1}})}, f64)
    a[i].data:fill_(1)
    total = total + turn
  end
  local one = blocks.leg(1, {{0, 1}})
  left[1] = boundary(1, {one, carried:reversed(), one:reversed()})
  right[n] = boundary(3, {carried, one, one:reversed()})
  return a, left, right
end

local function dmrg(n)
  local a, left, right = chain(n)
  -- L[b, w, l], R[y, r, e]: what lies left and right of a pair, with H and both states. In this order
  -- of legs their blocks are matrices for the contractions below, and need not be copied.
  local function grow_left(i)
    local x = einsum("bwl,lsr->bwsr", left[i], a[i])
    x = einsum("bwsr,wxps->bpxr", x, W)
    left[i + 1] = einsum("bpe,bpxr->exr", a[i]:conj(), x)
  end
  local function grow_right(i)
    local x = einsum("lsr,xre->lsxe", a[i], right[i])
    x = einsum("lsxe,wxps->wlpe", x, W)
    right[i - 1] = einsum("wlpe,bpe->wlb", x, a[i]:conj())
  end
  for i = n, 3, -1 do grow_right(i) end
  local energy, discarded, widest
  local function step(i, rightwards, steps)
    local pair = einsum("lsm,mtr->lstr", a[i], a[i + 1])
    local L, R = left[i], right[i + 1]
    local function map(x)
      local y = einsum("bwl,lstr->bwstr", L, pair:with_data(x))
      y = einsum("bwstr,wypqst->bpqyr", y, two)
      return einsum("bpqyr,yre->bpqe", y, R).data
    end
    local v
    energy, v = lowest(map, pair.data, steps, 1e-6)
    local u, s, vh, out, new = pair:with_data(v):svd({1, 2}, {rank = bond, rtol = 1e-10})
    discarded, widest = math.max(discarded, out), math.max(widest, new.size)
    s = s / s:norm()
    if rightwards then
      a[i], a[i + 1] = u, vh:scale(1, s)
      grow_left(i)
    else
      a[i], a[i + 1] = u:scale(3, s), vh
      grow_right(i + 1)
    end
  end
  for sweep = 1, most_sweeps do
    local before, begin = energy, os.clock()
    discarded, widest = 0, 0
    local steps = sweep < 3 and 4 or 3
    for i = 1, n - 2 do step(i, true, steps) end
    for i = n - 1, 2, -1 do step(i, false, steps) end
    if n == 2 then step(1, false, steps) end
    print(string.format("  %5d  %5d  %5d   %.12f   %9.1e     %8.3f", n, sweep, widest, energy, discarded,
                        os.clock() - begin))
    if before and math.abs(energy - before) < 1e-12 * n then return energy end
  end
  return energy
end

print(string.format("bond up to %d", bond))
print("  sites  sweep   bond    energy            discarded   CPU seconds")
local worst, most = 0, 0
gradus.no_grad(function()
  for _, n in ipairs(sizes) do
    if not known[n] then error("the energy of " .. n .. " sites is known of no other way; 8, 10, 12, 14 or 48") end
    local off = math.abs(dmrg(n) - known[n])
    if n <= 14 then off = math.max(off, math.abs(exact(n) - known[n])) end
    print(string.format("  %5d sites: %.1e from the known energy", n, off))
    -- What a bond of 64 or 128 leaves out of 48 sites is known as well.
    local allowed = n <= 14 and 1e-10 or bond >= 128 and 2e-10 or 1e-8
    if not (off < allowed) then error("the energy is off by " .. off) end
    worst, most = math.max(worst, off), math.max(most, allowed)
  end
end)
print(string.format("verified: %d %s to %.0e", #sizes, #sizes == 1 and "energy" or "energies", most))
