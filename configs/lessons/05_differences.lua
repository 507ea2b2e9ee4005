-- Checking a derivative, and how differences lie
--
-- (f(x + h) - f(x - h)) / 2h comes near the derivative of any f. How near? Two errors compete: the
-- curve bends within h, an error that shrinks like h * h, and f is rounded, an error that grows
-- like 1 / h. Neither a large nor a tiny step is good. gradus.func.grad(f) is the derivative of f,
-- as a function like f.
local function f(x) return 1 / (1 + x * x) end
local exact = gradus.func.grad(f)(gradus.tensor(0.7, {dtype = "f64"})):item()
local function digits(h, dtype)  -- how many digits of the difference are right
  local x = gradus.tensor(0.7, {dtype = dtype})
  local difference = (f(x + h):item() - f(x - h):item()) / (2 * h)
  return -math.log(math.abs(difference / exact - 1), 10)
end
print("step     right digits in f32     in f64")
for _, h in ipairs{1e-1, 1e-2, 1e-3, 1e-5, 1e-7} do
  local row = "%.0e    %.1f                     %.1f"
  print(row:format(h, digits(h, "f32"), digits(h, "f64")))
end

-- In f32 the best of these steps leaves four right digits, and the smallest hardly more than one:
-- f(x + h) and f(x - h) agree in all but their last digits, and those are rounded. A right
-- derivative would fail such a test. So derivatives are checked in f64, where ten digits are right,
-- with a step near the cube root of its rounding error. gradcheck does so, and raises an error
-- where differences and backward disagree.
print("gradcheck:", gradus.func.gradcheck(f, gradus.tensor({0.7, -1.2}, {dtype = "f64"})))

-- There is a test without any step. Forward mode pushes a direction v through f, backward mode
-- pulls a cotangent w back, and <w, J v> = <J' w, v> must hold to rounding. It catches a vjp that
-- is not the transpose of its jvp, though not one wrong in both.
local x = gradus.tensor({0.7, -1.2}, {dtype = "f64", requires_grad = true})
local v = gradus.tensor({1.0, 2.0}, {dtype = "f64"})
local w = gradus.tensor({-3.0, 0.5}, {dtype = "f64"})
local _, jv = gradus.func.jvp(f, x, v)
local jw = gradus.grad(f(x), x, w)
print(string.format("<w, J v> = %.12f", (w * jv):sum():item()))
print(string.format("<J' w, v> = %.12f", (jw * v):sum():item()))

-- Exercise: take the difference to one side, (f(x + h) - f(x)) / h. Its error shrinks like h alone.
-- How many digits can be right now, and with which step?
--[==[ prints
step     right digits in f32     in f64
1e-01    2.3                     2.3
1e-02    4.4                     4.3
1e-03    4.6                     6.3
1e-05    2.2                     10.3
1e-07    1.3                     9.4
gradcheck:	true
<w, J v> = 2.294924116923
<J' w, v> = 2.294924116923
]==]
