-- Newton's method without a matrix: the step solves H s = g by conjugate gradients, which need only
-- products of the Hessian with vectors.
local function f(x)  -- convex, far from quadratic
  return (x:exp():sum() + (x * x):sum()) + (x[1] - x[2]) ^ 4
end

local function solve(x, g)
  local s, r = gradus.zeros(#g, {dtype = "f64"}), g
  local d, rr = r, (r * r):sum():item()
  for _ = 1, 2 * #g do
    if rr < 1e-30 then break end
    local _, hd = gradus.func.hvp(f, x, d)
    local a = rr / (d * hd):sum():item()
    s, r = s + a * d, r - a * hd
    local next = (r * r):sum():item()
    d, rr = r + (next / rr) * d, next
  end
  return s
end

local x = gradus.tensor({2.0, -1.0, 0.5}, {dtype = "f64"})
for step = 1, 9 do
  local value, g = gradus.func.value_and_grad(f)(x)
  print(string.format("step %d  f = %.10f  |gradient| = %.1e", step, value:item(), (g * g):sum():sqrt():item()))
  x = x - solve(x, g)
end
--[[ prints
step 1  f = 95.6556568108  |gradient| = 1.6e+02
step 2  f = 21.3155292154  |gradient| = 4.9e+01
step 3  f = 6.3940767841  |gradient| = 1.5e+01
step 4  f = 3.3436307073  |gradient| = 4.5e+00
step 5  f = 2.6676083812  |gradient| = 1.4e+00
step 6  f = 2.5098858722  |gradient| = 4.3e-01
step 7  f = 2.4823637377  |gradient| = 6.6e-02
step 8  f = 2.4815521247  |gradient| = 5.0e-04
step 9  f = 2.4815520784  |gradient| = 9.9e-09
]]
