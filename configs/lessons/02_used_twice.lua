-- A value that is used twice
--
-- Where a value is used in two places, a change of it reaches the result by two ways. The result
-- feels both, so the gradients of the two ways add up: 2 + 5.
local x = gradus.tensor(3.0, {dtype = "f64", requires_grad = true})
local y = x * 2 + x * 5
y:backward()
print("after one backward:", x.grad:item())

-- They also add up from one backward to the next: x.grad is a sum, and clearing it is your
-- business. Every training loop calls zero_grad for this reason.
y = x * 2 + x * 5
y:backward()
print("after another:", x.grad:item())
x:zero_grad()

-- Forgetting one of the ways is the classic bug of a home-made engine: it shows only where a value
-- is used again. This expression, from the front page of micrograd, uses all of them again. relu is
-- what is above 0, and 0 for the rest: its slope is 1 or 0.
local a = gradus.tensor(-4.0, {dtype = "f64", requires_grad = true})
local b = gradus.tensor(2.0, {dtype = "f64", requires_grad = true})
local c = a + b
local d = a * b + b ^ 3
c = c + c + 1
c = c + 1 + c - a
d = d + d * 2 + (b + a):relu()
d = d + 3 * d + (b - a):relu()
local e = c - d
local f = e ^ 2
local g = f / 2 + 10 / f
g:backward()
local row = "g = %.4f, dg/da = %.4f, dg/db = %.4f"
print(row:format(g:item(), a.grad:item(), b.grad:item()))

-- Exercise: let y be x * x * x. By how many ways does x reach y? Say what x.grad is at 3 before you
-- run it.
--[==[ prints
after one backward:	7.0
after another:	14.0
g = 24.7041, dg/da = 138.8338, dg/db = 645.5773
]==]
