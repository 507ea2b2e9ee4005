-- Writing in place, and versions
--
-- A node keeps what its derivative will need. The square keeps its input, since its slope is 2 x;
-- exp keeps its own result, since it is its own slope.
local x = gradus.tensor({1.0, 2.0}, {requires_grad = true})
local h = x * 3
local y = h * h

-- Now somebody writes into h. The square has kept h, and the 3 and 6 of its slope are gone. To go
-- on with what lies there now would give a gradient, and a wrong one.
print("version of h before:", h.version)
h:mul_(10)
print("version of h after: ", h.version)
local ok, message = pcall(function() y:sum():backward() end)
print(ok)
print((tostring(message):gsub("^%S+%s", "")))

-- Every tensor counts the writes into it, and a saved one remembers the number of that moment. If
-- they differ when backward comes by, that is an error and never a silent wrong gradient.
--
-- A write that nobody's derivative needs is harmless: a sum keeps nothing of its operands.
local a = x * 3
local b = a + 1
a:mul_(10)
b:sum():backward()
print(x.grad)

-- And a write is recorded like any other op: what is read afterwards has the gradient of the new
-- value, 3 * 10.
x:zero_grad()
local c = x * 3
c:mul_(10)
c:sum():backward()
print(x.grad)
--[==[ prints
version of h before:	0
version of h after: 	1
false
mul: saved input 1 (2,) was changed by mul_ after it was saved (version 0 -> 1); clone() it before the write, or use an op that returns a new tensor
[3, 3]
f32 (2,)
[30, 30]
f32 (2,)
]==]
