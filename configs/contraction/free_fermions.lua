-- Free fermions on rings and lattices, whose signs come from the order of the legs.
--
-- A state of m particles on n sites is a block tensor with n legs, each empty (charge 0) or taken
-- (charge 1, odd), and a leg of size 1 that brings in the charge m. H = -sum (c_i^+ c_j + c_j^+ c_i)
-- over neighbours is a sum of small tensors with four legs. To act, a term takes legs i and j out of
-- the others and puts two back; every odd leg that another one crosses is a sign. einsum does that:
-- no string of Jordan and Wigner is written here. The same legs without oddness are spins (particles
-- that never share a site), and on a ring that makes another energy.
--
-- The judge needs no state at all: free particles fill the lowest levels of one particle's hopping
-- matrix. Spins on a ring do so, too, with hopping over the seam turned round if m is even.
--
-- gradus script configs/contraction/free_fermions.lua [MOST SITES]
local most = tonumber(arg[1]) or 9
local f64, blocks = {dtype = "f64"}, gradus.blocks

local rings = {{4, 2, -2, -2.828427124746}, {6, 2, -3, -3.464101615138}, {6, 3, -4, -4},
               {8, 4, -4.828427124746, -5.226251859506}}
local lattices = {{2, 2, 2, -2}, {3, 2, 3, -3.828427124746}, {3, 3, 4, -5.656854249492}}

local function letter(k) return string.char(96 + k) end
local function letters(n)
  local all = {}
  for k = 1, n do all[k] = letter(k) end
  return all
end

-- The lowest energy of m particles on n sites; pairs lists the neighbours.
local function energy(n, m, pairs, symmetry)
  local site = blocks.leg(1, {{0, 1}, {1, 1}}, {symmetry = symmetry})
  local back = site:reversed()
  local hop = gradus.zeros(2, 2, 2, 2, f64)
  hop[{2, 1, 1, 2}], hop[{1, 2, 2, 1}] = -1, -1
  hop = blocks.from_dense(hop, {site, site, back, back})
  local legs = {}
  for k = 1, n do legs[k] = site end
  legs[n + 1] = blocks.leg(-1, {{m, 1}}, {symmetry = symmetry})
  local state = blocks.randn(legs, f64)
  local terms = {}
  for k, pair in ipairs(pairs) do
    local i, j = pair[1], pair[2]
    local from = letters(n + 1)
    local to = letters(n + 1)
    to[i], to[j] = "A", "B"
    terms[k] = string.format("AB%s%s,%s->%s", letter(i), letter(j), table.concat(from), table.concat(to))
  end
  local function map(x)
    local y
    for _, term in ipairs(terms) do
      local z = gradus.einsum(term, hop, state:with_data(x)).data
      y = y and y + z or z
    end
    return y
  end
  return gradus.func.eigsh(map, state.data, {which = "SA"}):item(), state.count
end

-- One particle's levels, the lowest m of them; `seam` is the sign of the last pair.
local function filled(n, m, pairs, seam)
  local h = gradus.zeros(n, n, f64)
  for k, pair in ipairs(pairs) do
    local t = k == #pairs and seam or 1
    h[{pair[1], pair[2]}], h[{pair[2], pair[1]}] = -t, -t
  end
  return h:eigvalsh()[{{1, m}}]:sum():item()
end

local worst, tried = 0, 0
local function compare(found, levels, written)
  worst = math.max(worst, math.abs(found - levels), math.abs(found - written))
  tried = tried + 1
end

gradus.seed(1)
print("  ring  particles    fermions          spins")
gradus.no_grad(function()
  for _, ring in ipairs(rings) do
    local n, m = ring[1], ring[2]
    if n <= most then
      local pairs = {}
      for k = 1, n do pairs[k] = {k, k % n + 1} end
      local fermions, spins = energy(n, m, pairs, "fU(1)"), energy(n, m, pairs, "U(1)")
      print(string.format("  %4d  %9d    %.12f   %.12f", n, m, fermions, spins))
      compare(fermions, filled(n, m, pairs, 1), ring[3])
      compare(spins, filled(n, m, pairs, m % 2 == 0 and -1 or 1), ring[4])
    end
  end
  print("  lattice  particles    blocks    fermions")
  for _, lattice in ipairs(lattices) do
    local wide, high, m = lattice[1], lattice[2], lattice[3]
    if wide * high <= most then
      local pairs = {}
      for x = 1, wide do
        for y = 1, high do
          local k = (x - 1) * high + y
          if y < high then pairs[#pairs + 1] = {k, k + 1} end
          if x < wide then pairs[#pairs + 1] = {k, k + high} end
        end
      end
      local found, count = energy(wide * high, m, pairs, "fU(1)")
      print(string.format("  %d x %d    %9d  %8d    %.12f", wide, high, m, count, found))
      compare(found, filled(wide * high, m, pairs, 1), lattice[4])
    end
  end
end)
if not (worst < 1e-10) then error("an energy is off by " .. worst) end
print(string.format("verified: %d energies by one particle's levels, to 1e-10", tried))
