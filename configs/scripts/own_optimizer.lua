-- An optimiser of one's own: gradient descent with momentum against plain descent, on Rosenbrock's
-- valley, whose floor is almost flat. The minimum is at (1, 1).
local function valley(p)
  local x, y = p[1], p[2]
  return (1 - x) ^ 2 + 100 * (y - x ^ 2) ^ 2
end

local function descend(momentum)
  local p = gradus.tensor({-1.0, 1.0}, {dtype = "f64", requires_grad = true})
  local velocity = gradus.zeros(2, {dtype = "f64"})
  for _ = 1, 2000 do
    p:zero_grad()
    valley(p):backward()
    gradus.no_grad(function()
      velocity = momentum * velocity + p.grad
      p:sub_(5e-4 * velocity)
    end)
  end
  return p:detach()
end

for _, momentum in ipairs{0, 0.5, 0.9} do
  local p = descend(momentum):totable()
  print(string.format("momentum %.1f ends at (%.4f, %.4f)", momentum, p[1], p[2]))
end
--[[ prints
momentum 0.0 ends at (0.3635, 0.1291)
momentum 0.5 ends at (0.7281, 0.5288)
momentum 0.9 ends at (0.9932, 0.9863)
]]
