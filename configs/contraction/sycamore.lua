-- An amplitude of a random quantum circuit, as one contraction.
--
-- The circuit is of the kind that ran on Sycamore: qubits on a grid, in each cycle a random square
-- root of X, Y or W on every qubit, then fSim(pi/2, pi/6) on pairs of neighbours, in the pattern
-- ABCDCDAB. A simulator carries all 2^n numbers of the state through it. One amplitude <x|C|0>
-- needs less: each gate is a tensor, each piece of wire between two gates a label, both ends of
-- each wire are vectors, and the order of contraction is free.
--
-- gradus script configs/contraction/sycamore.lua [ROWS [COLUMNS [CYCLES]]]    4 5 8 if not given
local rows, columns = tonumber(arg[1]) or 4, tonumber(arg[2]) or 5
local cycles = tonumber(arg[3]) or 8
local n = rows * columns

local function complex(re, im)
  return gradus.complex(gradus.tensor(re, {dtype = "f64"}), gradus.tensor(im, {dtype = "f64"}))
end
local h, pi = math.sqrt(0.5), math.pi
local roots = {
  complex({{h, 0}, {0, h}}, {{0, -h}, {-h, 0}}),           -- of X
  complex({{h, -h}, {h, h}}, {{0, 0}, {0, 0}}),            -- of Y
  complex({{h, -0.5}, {0.5, h}}, {{0, -0.5}, {-0.5, 0}}),  -- of W = (X + Y) / sqrt 2
}
-- Axes: the two wires out, the two wires in.
local c, s = math.cos(pi / 6), math.sin(pi / 6)
local fsim = complex({{1, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, c}},
                     {{0, 0, 0, 0}, {0, 0, -1, 0}, {0, -1, 0, 0}, {0, 0, 0, -s}})
                 :reshape(2, 2, 2, 2)

-- Pairs of neighbours in four groups: A and B down the columns, C and D along the rows.
local function pairs_in(group)
  local list = {}
  for r = 0, rows - 1 do
    for q = 0, columns - 1 do
      local at, turn = r * columns + q + 1, (r + q) % 2 + 1
      if group == ("AB"):sub(turn, turn) and r < rows - 1 then
        table.insert(list, {at, at + columns})
      elseif group == ("CD"):sub(turn, turn) and q < columns - 1 then
        table.insert(list, {at, at + 1})
      end
    end
  end
  return list
end

-- A list of {gate, qubit [, qubit]}; no qubit gets the same root twice in a row.
local function circuit()
  local gates, before, pattern = {}, {}, "ABCDCDAB"
  local function roots_on_all()
    local draws = gradus.randint(0, 2, {n}):totable()
    for q = 1, n do
      before[q] = before[q] and (before[q] + draws[q]) % 3 + 1 or draws[q] + 1
      table.insert(gates, {roots[before[q]], q})
    end
  end
  for k = 0, cycles - 1 do
    roots_on_all()
    local at = k % 8 + 1
    for _, p in ipairs(pairs_in(pattern:sub(at, at))) do table.insert(gates, {fsim, p[1], p[2]}) end
  end
  roots_on_all()
  return gates
end

-- The amplitude of `bits`, n zeros and ones. wire[q] is the label of qubit q's latest piece. All
-- amplitudes have the same network, so one plan does for them.
local plan
local function amplitude(gates, bits)
  local ends = {[0] = complex({1, 0}, {0, 0}), complex({0, 1}, {0, 0})}
  local operands, labels, wire, last = {}, {}, {}, 0
  local function new() last = last + 1 return last end
  for q = 1, n do
    wire[q] = new()
    table.insert(operands, ends[0])
    table.insert(labels, {wire[q]})
  end
  for _, g in ipairs(gates) do
    local gate, a, b = table.unpack(g)
    local own = b and {new(), new(), wire[a], wire[b]} or {new(), wire[a]}
    wire[a] = own[1]
    if b then wire[b] = own[2] end
    table.insert(operands, gate)
    table.insert(labels, own)
  end
  for q = 1, n do
    table.insert(operands, ends[bits[q]])
    table.insert(labels, {wire[q]})
  end
  plan = plan or gradus.einsum_plan(operands, labels, {}, {budget = 5000 * #gates})
  return plan(operands)
end

-- The whole state, gate by gate: (qubits before, 2, between, 2, after).
local function simulated(gates)
  local state = complex({1, 0}, {0, 0})
  for _ = 2, n do state = gradus.einsum("i,j->ij", state, complex({1, 0}, {0, 0})):reshape(-1) end
  for _, g in ipairs(gates) do
    local gate, a, b = table.unpack(g)
    local before = 1 << a - 1
    if b then
      local x = state:reshape(before, 2, 1 << b - a - 1, 2, -1)
      state = gradus.einsum("ijkl,pkmlq->pimjq", gate, x):reshape(-1)
    else
      state = gradus.einsum("ij,pjq->piq", gate, state:reshape(before, 2, -1)):reshape(-1)
    end
  end
  return state
end

gradus.seed(7)
local gates = circuit()
local state = simulated(gates)
local norm = (state * state:conj()):real():sum():item()
local row = "%d qubits, %d cycles, %d gates: the state's norm is %.12f"
print(row:format(n, cycles, #gates, norm))
local worst = 0
for trial = 1, 3 do
  local bits, number = gradus.randint(0, 2, {n}):totable(), 0
  for q = 1, n do number = 2 * number + bits[q] end
  local got = amplitude(gates, bits)
  local off = (got - state[number + 1]):abs():item() * 2 ^ (n / 2)
  worst = math.max(worst, off)
  print(string.format("<%s|C|0> = %s", table.concat(bits), got))
end
print(string.format("each of %d contractions, 2^%.1f flops; the state has 2^%d numbers", #plan.steps,
                    math.log(plan.flops, 2), n))
if not (math.abs(norm - 1) < 1e-10) then error("the state lost its norm") end
if not (worst < 1e-10) then error("an amplitude differs by " .. worst) end
print(string.format("verified: 3 amplitudes of %d qubits, by network as by state vector", n))
