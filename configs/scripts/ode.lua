-- Through a solver of differential equations: which spring makes a pendulum of small swings come
-- back after one second? Runge-Kutta steps are ops like any other, so the period has a gradient.
local function swing(stiffness, steps)  -- x'' = -stiffness x from x = 1, v = 0, for one second
  local h = 1 / steps
  local function slope(s) return gradus.stack({s[2], -stiffness * s[1]}, 1) end
  local s = gradus.tensor({1, 0}, {dtype = "f64"})
  for _ = 1, steps do
    local k1 = slope(s)
    local k2 = slope(s + h / 2 * k1)
    local k3 = slope(s + h / 2 * k2)
    local k4 = slope(s + h * k3)
    s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
  end
  return s
end

local stiffness = gradus.tensor(30.0, {dtype = "f64", requires_grad = true})
for step = 1, 8 do
  local velocity = swing(stiffness, 50)[2]  -- back at rest: velocity 0
  local slope = gradus.grad(velocity, stiffness)
  if step % 2 == 0 then
    print(string.format("step %d  stiffness %.6f  velocity after a second %.2e", step, stiffness:item(), velocity:item()))
  end
  stiffness = (stiffness:detach() - velocity:detach() / slope):requires_grad_()
end
print(string.format("exact: (2 pi)^2 = %.6f", (2 * math.pi) ^ 2))
--[[ prints
step 2  stiffness 44.096434  velocity after a second -2.32e+00
step 4  stiffness 39.478619  velocity after a second -1.91e-05
step 6  stiffness 39.478581  velocity after a second 1.33e-15
step 8  stiffness 39.478581  velocity after a second 1.33e-15
exact: (2 pi)^2 = 39.478418
]]
