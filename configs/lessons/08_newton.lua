-- Derivatives of derivatives
--
-- A derivative is made of the same ops as everything else, so it has a derivative as well. Only,
-- backward does not record its own steps, since few want that. With create_graph it does, and then
-- the gradient has a history like any other result, through which one can walk again.
local x = gradus.tensor(0.5, {dtype = "f64", requires_grad = true})
local d = x:sin()
for order = 1, 4 do
  d = gradus.grad(d, x, {create_graph = true})
  print(string.format("derivative %d of sin: %9.6f", order, d:item()))
end
print(string.format("after four it is sin:  %9.6f", math.sin(0.5)))

-- What for? The gradient g says where downhill is, the second derivatives how far. Those of two
-- numbers are a matrix of two rows, the Hessian H: its element i, j is the derivative by i of the
-- gradient by j. Newton's step goes to the minimum of the parabola that touches f here, x - H^-1 g.
-- gradus.func makes functions of functions: value_and_grad(f) gives f and its gradient at a place,
-- hessian(f) gives H.
local function f(p)  -- Rosenbrock's valley: narrow, bent, minimum at (1, 1)
  return (1 - p[1]) ^ 2 + 100 * (p[2] - p[1] ^ 2) ^ 2
end
local p = gradus.tensor({-1.2, 1.0}, {dtype = "f64"})
for step = 1, 6 do
  local value, g = gradus.func.value_and_grad(f)(p)
  local h = gradus.func.hessian(f)(p)
  local row = "step %d  f = %.3e  at (%8.5f, %8.5f)"
  print(row:format(step, value:item(), p[1]:item(), p[2]:item()))
  p = p - gradus.solve(h, g)
end

-- A parabola may fit badly far away: f grew twice on the way. Near the minimum each step doubles the
-- digits that are right. For a million parameters nobody can hold H, but H times a vector costs
-- about two gradients: the derivative of the gradient along that vector, hvp.
local v = gradus.tensor({1.0, -1.0}, {dtype = "f64"})
local _, hv = gradus.func.hvp(f, p, v)
print(hv)
print(gradus.func.hessian(f)(p):matmul(v))

-- Exercise: go downhill by p = p - 0.001 * g instead. How far do six steps come, and six hundred?
-- In a narrow valley the gradient points across it.
--[==[ prints
derivative 1 of sin:  0.877583
derivative 2 of sin: -0.479426
derivative 3 of sin: -0.877583
derivative 4 of sin:  0.479426
after four it is sin:   0.479426
step 1  f = 2.420e+01  at (-1.20000,  1.00000)
step 2  f = 4.732e+00  at (-1.17528,  1.38067)
step 3  f = 1.412e+03  at ( 0.76311, -3.17503)
step 4  f = 5.597e-02  at ( 0.76343,  0.58282)
step 5  f = 3.132e-01  at ( 1.00000,  0.94403)
step 6  f = 1.853e-11  at ( 1.00000,  0.99999)
[1202, -600]
f64 (2,)
[1202, -600]
f64 (2,)
]==]
