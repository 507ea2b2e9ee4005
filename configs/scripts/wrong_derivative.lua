-- Find the wrong derivative. A network that learns, only not as well as it should: one of its ops
-- has a slope that is off. The audit judges each node with the numbers that it had, so it names the
-- op, the line and the element.
local function softsign(slope)  -- check = false lets a wrong slope in
  return gradus.op{name = "my_softsign", check = false, slope = slope,
                   value = function(x) return x / (1 + x:abs()) end}
end
local activate = softsign(function(x, y) return 1 / (1 + x:abs()) end)

gradus.seed(1)
local x, target = gradus.randn(16, 4), gradus.randn(16, 1)
local w1 = (gradus.randn(4, 8) / 2):requires_grad_()
local w2 = (gradus.randn(8, 1) / 3):requires_grad_()
local function loss()
  local hidden = activate(x:matmul(w1))
  return ((hidden:matmul(w2) - target) ^ 2):mean()
end

local function judge()
  local report = gradus.audit.check(loss)
  print(string.format("%d of %d nodes are wrong", report.bad, #report))
  for _, line in ipairs(report) do
    if line.bad then print(line.op, line.where:match("[^/]*$"), line.text:match("element.*")) end
  end
end
judge()

-- y = x / (1 + |x|) has the slope 1 / (1 + |x|)^2: the square was missing.
activate = softsign(function(x, y) return 1 / (1 + x:abs()) ^ 2 end)
judge()
--[[ prints
1 of 7 nodes are wrong
my_softsign	wrong_derivative.lua:15	element (8, 5): vjp -3.3203561713189997, differences -0.9132406660054476 +- 5.173434544507672e-09
0 of 7 nodes are wrong
]]
