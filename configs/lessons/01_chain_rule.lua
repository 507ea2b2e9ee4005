-- The chain rule
--
-- y = sin(x * x) + x is built of three nodes: a product, a sine and a sum. Each node knows one
-- thing: how its own result moves with its own inputs. Backward walks from y to x, multiplies
-- these numbers along a way, and adds where ways meet. requires_grad says that the derivative by x
-- will be asked for, f64 that numbers have sixteen digits. Afterwards x.grad holds it, and item()
-- makes a number of Lua of a tensor.
local x = gradus.tensor(1.5, {dtype = "f64", requires_grad = true})
local a = x * x          -- da/dx = 2 x
local b = a:sin()        -- db/da = cos(a)
local y = b + x          -- dy/db = 1, and dy/dx = 1 by the short way
y:backward()
print(string.format("backward     dy/dx = %.10f", x.grad:item()))

-- By hand: the product along the long way, and the short way added.
local v = 1.5
print(string.format("by hand      dy/dx = %.10f", 1 * math.cos(v * v) * 2 * v + 1))

-- And with no derivative at all: push x a little to either side and see how far y moves.
local function f(t) return math.sin(t * t) + t end
local h = 1e-5
print(string.format("differences  dy/dx = %.10f", (f(v + h) - f(v - h)) / (2 * h)))

-- What stands at each node on the way back can be kept too. It is dy by that node, and called its
-- cotangent or gradient.
x:zero_grad()
a = (x * x):retain_grad()
b = a:sin():retain_grad()
y = b + x
y:backward()
print(string.format("at b %.4f, at a %.4f", b.grad:item(), a.grad:item()))
print(string.format("at x %.4f", x.grad:item()))

-- Exercise: let y be exp(sin(x)) * x, in all four places. By hand it is exp(sin(x)) * (1 + x *
-- cos(x)). Do all agree?
--[==[ prints
backward     dy/dx = -0.8845208682
by hand      dy/dx = -0.8845208682
differences  dy/dx = -0.8845208681
at b 1.0000, at a -0.6282
at x -0.8845
]==]
