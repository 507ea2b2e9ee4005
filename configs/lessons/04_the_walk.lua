-- The graph is data, and one walk goes through it
--
-- Here is an autograd engine of its own. A node holds its value, its inputs, and how fast it moves
-- with each of them. That is all there is to record.
local function node(name, value, inputs, slopes)
  return {name = name, value = value, inputs = inputs or {}, slopes = slopes, grad = 0, waits = 0}
end
local function add(a, b) return node("add", a.value + b.value, {a, b}, {1, 1}) end
local function mul(a, b) return node("mul", a.value * b.value, {a, b}, {b.value, a.value}) end
local function exp(a) local y = math.exp(a.value) return node("exp", y, {a}, {y}) end

-- A node must not go on before all that use it have sent their share. So count them first.
local function count(n)
  for _, i in ipairs(n.inputs) do
    i.waits = i.waits + 1
    if i.waits == 1 then count(i) end
  end
end

-- Then walk: take a node that waits for nobody, send its gradient times its slopes on, and see
-- whether that made another one ready.
local function walk(root)
  count(root)
  root.grad = 1
  local ready = {root}
  while #ready > 0 do
    local n = table.remove(ready)
    print(string.format("%-4s value %8.4f  gradient %8.4f", n.name, n.value, n.grad))
    for k, i in ipairs(n.inputs) do
      i.grad, i.waits = i.grad + n.grad * n.slopes[k], i.waits - 1
      if i.waits == 0 then ready[#ready + 1] = i end
    end
  end
end
local x, w = node("x", 0.5), node("w", -2)
local h = mul(w, x)
walk(add(mul(h, h), exp(h)))  -- h is used three times, and goes on once

-- gradus does the same in engine/backward.cpp, where counting needs no recursion either, so that a
-- chain of ten million nodes is no deeper than one of ten. `gradus graph CONFIG` prints the
-- graph of a training step, and its walk.
local tx = gradus.tensor(0.5, {dtype = "f64", requires_grad = true})
local th = tx * -2
print(string.format("gradus: gradient of x %.4f", gradus.grad(th * th + th:exp(), tx):item()))

-- Exercise: give this engine sin, in a line like that of exp, and walk add(mul(h, h), sin(h)). Does
-- x get what gradus says?
--[==[ prints
add  value   1.3679  gradient   1.0000
exp  value   0.3679  gradient   1.0000
mul  value   1.0000  gradient   1.0000
mul  value  -1.0000  gradient  -1.6321
x    value   0.5000  gradient   3.2642
w    value  -2.0000  gradient  -0.8161
gradus: gradient of x 3.2642
]==]
