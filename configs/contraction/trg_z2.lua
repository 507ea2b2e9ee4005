-- The Ising model by coarse-graining, in blocks of even and odd.
--
-- As configs/linalg/trg.lua (Levin & Nave, Phys. Rev. Lett. 99, 120601 (2007)), but each bond is
-- written in even and odd functions of a spin. Turning all spins round changes nothing, so only
-- blocks with an even number of odd legs are there: Z2. The SVD is one of each sector, cut over both,
-- and never mixes them, so values that are equal in both (at low temperatures all are) do no harm to
-- its derivative: the gradient of ln Z by 1/T is minus the energy. The judges are the exact values of
-- the endless lattice (at the critical point ln Z is ln(2)/2 + 2 G/pi, with Catalan's G) and ln Z of
-- another program at the same bond.
--
-- gradus script configs/contraction/trg_z2.lua [BOND] [STEPS]
local bond, steps = tonumber(arg[1]) or 16, tonumber(arg[2]) or 30
local f64, blocks, einsum = {dtype = "f64"}, gradus.blocks, gradus.einsum
local critical = 2 / math.log(1 + math.sqrt(2))
-- T, ln Z, energy
local exact = {{1.5, 1.3389621236162, -1.9511165730784}, {2.0, 1.0257928126949, -1.7455645753126},
               {critical, 0.92969539834161, -math.sqrt(2)}, {2.5, 0.87936382077495, -1.1060792037458},
               {3.0, 0.81588273185772, -0.81730959250242}}
-- ln Z by temperature and bond.
local others = {[1.5] = {[8] = 1.338962079347, [16] = 1.338962122457},
                [2.0] = {[8] = 1.025789195424, [16] = 1.025792198069, [24] = 1.025792715849},
                [critical] = {[4] = 0.929426460851, [8] = 0.929631118581, [16] = 0.929691093239,
                              [24] = 0.929694362471},
                [2.5] = {[4] = 0.87931859905, [8] = 0.879316814847},
                [3.0] = {[8] = 0.815870358783}}

-- exp(b s s') = W[s, 1] W[s', 1] + W[s, 2] W[s', 2], where the second changes its sign with s. T
-- sums over the spin of its site: twice the product of W, where the odd ones are even in number.
local leg = blocks.leg(1, {{0, 1}, {1, 1}}, {symmetry = "Z2"})
local function site(b)
  local c, s = b:cosh():sqrt(), b:sinh():sqrt()
  local t, numbers = blocks.zeros({leg, leg, leg:reversed(), leg:reversed()}, f64), {}
  for i, at in ipairs(t.blocks) do
    local product = 2
    for _, k in ipairs(at) do product = product * (k == 1 and c or s) end
    numbers[i] = product
  end
  return t:with_data(gradus.stack(numbers))
end

local function halves(t)
  local u, s, vh = t:svd({1, 2}, {rank = bond, rtol = 1e-14})
  local root = s:sqrt()
  return u:scale(3, root), vh:scale(1, root)
end

local function log_partition(b)
  local t, sum, sites = site(b), 0, 1
  for _ = 1, steps do
    local size = t:norm()
    t, sum = t / size, sum + size:log() / sites
    local ul, dr = halves(t)
    local ld, ru = halves(t:permute(2, 3, 4, 1))
    t = einsum("pea,abq,bct,sce->pstq", dr, ld, ul, ru)
    sites = 2 * sites
  end
  return sum + einsum("ijij->", t).data:log():sum() / sites, t
end

print(string.format("bond %d, 2^%d sites", bond, steps))
print("         T    ln Z per site     off by     from others    energy        off by     last tensor")
local worst, worst_energy, apart, compared = 0, 0, 0, 0
for _, row in ipairs(exact) do
  local temperature, lnz, energy = row[1], row[2], row[3]
  local b = gradus.tensor(1 / temperature, f64):requires_grad_()
  local sum, t = log_partition(b)
  local z, e = sum:item(), -gradus.grad(sum, b):item()
  local off, energy_off = math.abs(z / lnz - 1), math.abs(e / energy - 1)
  local other = others[temperature][bond]
  print(string.format("  %.6f    %.12f   %.1e    %s        %.7f    %.1e    %d numbers of %d", temperature, z, off,
                      other and string.format("%.1e", math.abs(z - other)) or "   -   ", e, energy_off,
                      t.elements, t.shape[1] * t.shape[2] * t.shape[3] * t.shape[4]))
  worst, worst_energy = math.max(worst, off), math.max(worst_energy, energy_off)
  if other and steps == 30 then apart, compared = math.max(apart, math.abs(z - other)), compared + 1 end
end
local allowed = bond >= 16 and 5e-6 or bond >= 8 and 8e-5 or 4e-4
local of_energy = bond >= 16 and 2e-3 or bond >= 8 and 1e-2 or 3e-2
if not (worst < allowed) then error("the free energy is off by " .. worst) end
if not (worst_energy < of_energy) then error("the energy is off by " .. worst_energy) end
if not (apart < 1e-9) then error("another program at this bond differs by " .. apart) end
print(string.format("verified: ln Z to %.0e and energies to %.0e of the exact values; ln Z to 1e-9 of %d others",
                    allowed, of_energy, compared))
