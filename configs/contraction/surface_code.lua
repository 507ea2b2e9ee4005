-- The best decoder of the surface code is a tensor network.
--
-- d x d qubits, each flipped with probability p. Checks between them say which errors are possible
-- (the syndrome), but not which one happened; errors that differ by a product of the code's other
-- stabilizers (faces) do the same to the logical qubit. So what counts is the probability of a
-- whole coset, error + any set of faces: a sum over one bit for each face. A qubit that is in two
-- faces is a matrix: the probability of error + bit + bit. A face's bit is the label of all its
-- qubits. The decoder compares the coset of an error with that of the same error and a logical
-- flip, and takes the more probable one.
--
-- gradus script configs/contraction/surface_code.lua [DISTANCE [SHOTS]]    7 and 1000 if not given
local distance, shots = tonumber(arg[1]) or 7, tonumber(arg[2]) or 1000
local p = 0.06

-- Rotated code. Corner (i, j) of the grid is the centre of a face that touches up to four qubits;
-- where i + j is even it is a stabilizer of flips, else a check.
local function code(d)
  local c = {d = d, faces = {}, checks = {}, of_qubit = {}, logical = {}}
  for q = 1, d * d do c.of_qubit[q] = {} end
  for i = 0, d do
    for j = 0, d do
      local even = (i + j) % 2 == 0
      local inside = even and 1 <= j and j < d or not even and 1 <= i and i < d
      local qubits = {}
      for r = math.max(i - 1, 0), math.min(i, d - 1) do
        for s = math.max(j - 1, 0), math.min(j, d - 1) do table.insert(qubits, r * d + s + 1) end
      end
      if inside then table.insert(even and c.faces or c.checks, qubits) end
      if inside and even then
        for _, q in ipairs(qubits) do table.insert(c.of_qubit[q], #c.faces) end
      end
    end
  end
  for r = 0, d - 1 do table.insert(c.logical, r * d + 1) end  -- flips one column of qubits
  return c
end

-- The tensors of a qubit with and without an error: over the bits of its one face or its two.
local f64 = {dtype = "f64"}
local one = {[0] = gradus.tensor({1 - p, p}, f64), gradus.tensor({p, 1 - p}, f64)}
local two = {[0] = gradus.stack({one[0], one[1]}, 1), gradus.stack({one[1], one[0]}, 1)}
local function operands_of(c, error_bits)
  local operands = {}
  for q, faces in ipairs(c.of_qubit) do
    operands[q] = (#faces == 2 and two or one)[error_bits[q]]
  end
  return operands
end
local function coset(c, error_bits)  -- its probability
  local operands = operands_of(c, error_bits)
  c.plan = c.plan or gradus.einsum_plan(operands, c.of_qubit, {}, {budget = 2e5})
  return c.plan(operands):item()
end
local function flipped(c, error_bits)
  local other = {table.unpack(error_bits)}
  for _, q in ipairs(c.logical) do other[q] = 1 - other[q] end
  return other
end

-- All 512 errors of distance 3, one by one: those with one syndrome and one parity along a row,
-- which a logical flip changes and no face does, are a coset.
local c = code(3)
local errors, coset_of, sums = {}, {}, {}
for bits = 0, 511 do
  local e, key, weight = {}, {}, 1
  for q = 1, 9 do
    e[q] = bits >> q - 1 & 1
    weight = weight * (e[q] == 1 and p or 1 - p)
  end
  local function parity(qubits)
    local sum = 0
    for _, q in ipairs(qubits) do sum = sum + e[q] end
    table.insert(key, sum % 2)
  end
  for _, check in ipairs(c.checks) do parity(check) end
  parity{1, 2, 3}
  errors[bits], coset_of[bits] = e, table.concat(key)
  sums[coset_of[bits]] = (sums[coset_of[bits]] or 0) + weight
end
local worst, wrong_3, cosets = 0, 0, 0
for bits, e in pairs(errors) do
  worst = math.max(worst, math.abs(coset(c, e) / sums[coset_of[bits]] - 1))
end
for key, sum in pairs(sums) do  -- the decoder is wrong where the less probable coset happened
  local other = key:sub(1, -2) .. (key:sub(-1) == "0" and "1" or "0")
  cosets, wrong_3 = cosets + 1, wrong_3 + math.min(sum, sums[other]) / 2
end
print(string.format("distance 3: %d cosets; the decoder is wrong with probability %.6f", cosets,
                    wrong_3))
if cosets ~= 32 or not (worst < 1e-12) then error("the cosets are off by " .. worst) end

-- Larger codes by drawing errors: below the threshold, p = 0.109, they are wrong less often.
gradus.seed(6)
for d = 3, distance, 2 do
  local wrong, larger = 0, code(d)
  for _ = 1, shots do
    local e = gradus.rand(d * d):lt(p):to("i64"):totable()
    if coset(larger, e) < coset(larger, flipped(larger, e)) then wrong = wrong + 1 end
  end
  local row = "distance %d: wrong in %d of %d; a coset is a sum of 2^%d, in %.3g flops"
  print(row:format(d, wrong, shots, #larger.faces, larger.plan.flops))
end
print("verified: the probabilities of all 32 cosets of distance 3, by summing all 512 errors")
